// Each constraint of nn's ops is an error of one sentence, at the op.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @cast_c1_shape(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{casts 'tensor<2x3xf32>' to 'tensor<3x2xi64>', expected equal shapes}}
  %0 = nn.cast %x : (tensor<2x3xf32>) -> tensor<3x2xi64>
  return
}

// -----

func.func @add_c1_element_types(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error@+2 {{operands have element types 'f32' and 'f64', expected one}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.add %x, %y : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  return
}

// -----

func.func @add_c1_shapes(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error@+2 {{operands 'tensor<2x3xf32>' and 'tensor<2xf32>' do not broadcast}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.add %x, %y : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @result_type(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<3x2xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.relu %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @select_c1(%c: tensor<2x3xi1>, %x: tensor<2x4xf32>, %y: tensor<f32>) {
  // expected-error@+2 {{condition 'tensor<2x3xi1>' does not broadcast with 'tensor<2x4xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.select %c, %x, %y : (tensor<2x3xi1>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @matmul_c1_ranks(%x: tensor<3xf32>, %y: tensor<3x4xf32>) {
  // expected-error@+2 {{operands 'tensor<3xf32>' and 'tensor<3x4xf32>', expected rank 2 or more and one element type}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @matmul_c2_contracted(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error@+2 {{contracted sizes are 3 and 4 in 'tensor<2x3xf32>' and 'tensor<4x5xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @matmul_c3_batch(%x: tensor<2x2x3xf32>, %y: tensor<4x3x5xf32>) {
  // expected-error@+2 {{batch dimensions of 'tensor<2x2x3xf32>' and 'tensor<4x3x5xf32>' do not broadcast}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<2x2x3xf32>, tensor<4x3x5xf32>) -> tensor<4x2x5xf32>
  return
}

// -----

func.func @matmul_c4_types(%x: tensor<2x3xf32>, %y: tensor<3x5xf64>) {
  // expected-error@+2 {{operands 'tensor<2x3xf32>' and 'tensor<3x5xf64>', expected rank 2 or more and one element type}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<2x3xf32>, tensor<3x5xf64>) -> tensor<2x5xf32>
  return
}

// -----

func.func @conv_c1_lists(%x: tensor<1x8x8x4xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+2 {{window has 1 entries, expected 2}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w kernel 3x3 strides 1 : tensor<1x8x8x4xf32> -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c2_channels(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+2 {{image 'tensor<1x8x8x4xf32>' and weights 'tensor<6x3x3x3xf32>' do not fit 1 groups}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w kernel 3x3 : (tensor<1x8x8x4xf32>, tensor<6x3x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c3_empty(%x: tensor<1x2x2x4xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+2 {{window of 3 does not fit dimension of size 2}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w kernel 3x3 : tensor<1x2x2x4xf32> -> tensor<1x1x1x6xf32>
  return
}

// -----

func.func @max_pool_c1_stride(%x: tensor<1x8x8x4xf32>) {
  // expected-error@+2 {{strides, dilations and kernel must be positive}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.max_pool %x kernel 2x2 strides 0x2 : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  return
}

// -----

func.func @reduce_c1_order(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{dims must be ascending dimensions of 'tensor<2x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.reduce sum %x dims [1, 0] : (tensor<2x3xf32>) -> tensor<f32>
  return
}

// -----

func.func @softmax_c1_dim(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{dim is 2, expected less than rank 2}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.softmax %x dim 2 : tensor<2x3xf32>
  return
}

// -----

func.func @layer_norm_c2_scale(%x: tensor<2x3xf32>, %s: tensor<2xf32>, %b: tensor<3xf32>) {
  // expected-error@+2 {{operand 'tensor<2xf32>' does not have the trailing shape of 'tensor<2x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.layer_norm %x, %s, %b dim 1 epsilon 1.0e-05
     : (tensor<2x3xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @batch_norm_c1(%x: tensor<2x3xf32>, %v: tensor<3xf32>, %m: tensor<2xf32>) {
  // expected-error@+2 {{operand 'tensor<2xf32>' does not have the trailing shape of 'tensor<2x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.batch_norm %x, %v, %v, %m, %v epsilon 1.0e-05
     : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @lrn_c1_size(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{size is 0, expected at least 1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.lrn %x size 0 alpha 0.0001 beta 0.75 bias 1.0 : tensor<2x3xf32>
  return
}

// -----

func.func @reshape_c1_elements(%x: tensor<2x12xf32>) {
  // expected-error@+1 {{reshapes 'tensor<2x12xf32>' to 'tensor<5x5xf32>', expected the same element type and number of elements}}
  %0 = nn.reshape %x : (tensor<2x12xf32>) -> tensor<5x5xf32>
  return
}

// -----

func.func @transpose_c1_perm(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{perm is not a permutation of 2 dimensions}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.transpose %x perm [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @broadcast_c1(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{operand 'tensor<3x2xf32>' does not broadcast to 'tensor<2x3x4xf32>'}}
  %0 = nn.broadcast %x : (tensor<3x2xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @concat_c1(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error@+2 {{operands 'tensor<2x3xf32>' and 'tensor<2x4xf32>' differ outside dimension 0}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.concat %x, %y dim 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_c1_lists(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{expected 2 starts, sizes and strides}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.slice %x from [0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @slice_c2_inside(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{dimension 1: start 2, size 2, stride 1 leaves size 3}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.slice %x from [0, 2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @pad_c1_negative(%x: tensor<3xf32>) {
  // expected-error@+2 {{negative padding of dimension 0}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.pad %x by [-1:0] value 0.0 : f32 : (tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @gather_c2(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+2 {{indices 'tensor<4xi64>' do not begin with the first 1 dimensions of 'tensor<2x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather %x, %i dim 1 {batched} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  return
}

// -----

func.func @scatter_c1(%x: tensor<3xf32>, %i: tensor<4xi64>, %u: tensor<4xf32>) {
  // expected-error@+2 {{dim is 1, expected less than rank 1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.scatter set %x, %i, %u dim 1 : (tensor<3xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @scatter_c2(%x: tensor<2x3xf32>, %i: tensor<4xi64>, %u: tensor<4x2xf32>) {
  // expected-error@+2 {{updates are 'tensor<4x2xf32>', expected 'tensor<4x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.scatter add %x, %i, %u dim 0 : (tensor<2x3xf32>, tensor<4xi64>, tensor<4x2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @top_k_c1(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{k is 4, expected 1 to the last size of 'tensor<2x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.top_k 4 of %x : (tensor<2x3xf32>) -> tensor<2x4xi64>
  return
}

// -----

func.func @greedy_suppress_c1(%b: tensor<2x3x4xf32>, %s: tensor<2x5x4xf32>, %t: tensor<f32>, %m: tensor<i64>) {
  // expected-error@+2 {{expected four numbers for each of the boxes that the last dimension of scores counts}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.greedy_suppress 1 of %b, %s threshold %t most %m : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<f32>, tensor<i64>) -> tensor<2x5x1xi64>
  return
}

// -----

func.func @greedy_suppress_c2(%b: tensor<3x4xf32>, %s: tensor<5x3xf32>, %t: tensor<f32>, %m: tensor<i64>) {
  // expected-error@+2 {{count is 4, expected 1 to the number of boxes, 3}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.greedy_suppress 4 of %b, %s threshold %t most %m : (tensor<3x4xf32>, tensor<5x3xf32>, tensor<f32>, tensor<i64>) -> tensor<5x4xi64>
  return
}

// -----

func.func @gather_dim(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+2 {{dim is 2, expected less than rank 2}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.gather %x, %i dim 2 : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @weight_c1_length() {
  // expected-error@+1 {{length is 95 bytes, expected 96 for 'tensor<4x6xf32>'}}
  %0 = "nn.weight"() <{name = "w", file = 0 : i64, offset = 0 : i64, length = 95 : i64, stored = tensor<4x6xf32>}> : () -> tensor<4x6xf32>
  return
}

// -----

func.func @weight_c2_view() {
  // expected-error@+1 {{view of dimension 1 is [5, 7), outside size 6}}
  %0 = nn.weight "w" file 0 at 0 : tensor<4x2xf32> of tensor<4x6xf32> from [0, 5]
  return
}

// -----

func.func @iota_dim() {
  // expected-error@+1 {{dim is 2, expected less than rank 2}}
  %0 = nn.iota dim 2 : tensor<2x3xi64>
  return
}

// -----

func.func @attention_c1(%q: tensor<2x4x3x8xf32>, %k: tensor<1x4x5x8xf32>) {
  // expected-error@+1 {{expected rank 4, one batch and one element type}}
  %0:2 = nn.attention %q, %k, %k scale 1.0 : tensor<2x4x3x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x5x8xf32>) {
  // expected-error@+1 {{heads or lengths of}}
  %0:2 = nn.attention %q, %k, %k scale 1.0 : tensor<2x4x3x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x6xf32>) {
  // expected-error@+1 {{q has heads of size 8, k has heads of size 6}}
  %0:2 = nn.attention %q, %k, %k scale 1.0 : tensor<2x4x3x8xf32>, tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<2x4x3x8xf32>, %b: tensor<3x3x3xf32>) {
  // expected-error@+1 {{expected one of rank 4 that broadcasts to scores of shape}}
  %0:2 = nn.attention %q, %q, %q, %b scale 1.0 : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<3x3x3xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x0x8xf32>) {
  // expected-error@+1 {{expected at least one key}}
  %0:2 = nn.attention %q, %k, %k scale 1.0 : tensor<2x4x3x8xf32>, tensor<2x4x0x8xf32>, tensor<2x4x0x8xf32>
  return
}

// -----

func.func @attention_gradient_c2(%q: tensor<2x4x3x8xf32>, %s: tensor<2x4x3xf32>, %dy: tensor<2x4x3x4xf32>) {
  // expected-error@+2 {{result, stats and dy are}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:3 = "nn.attention_gradient"(%q, %q, %q, %q, %s, %dy) <{scale = 1.0 : f64}>
     : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3xf32>, tensor<2x4x3x4xf32>)
    -> (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>)
  return
}

// -----

func.func @cast_c2_power(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{casts 'f32' to 'f8E8M0FNU', which nn.bitcast makes of an exponent}}
  %0 = nn.cast %x : (tensor<2x3xf32>) -> tensor<2x3xf8E8M0FNU>
  return
}

// -----

func.func @bitcast_c1_shape(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{takes 'tensor<2x3xf32>' to 'tensor<3x2xi32>', expected equal shapes}}
  %0 = nn.bitcast %x : (tensor<2x3xf32>) -> tensor<3x2xi32>
  return
}

// -----

func.func @bitcast_c2_width(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{takes 'f32' as 'i16', expected types of one width above 1}}
  %0 = nn.bitcast %x : (tensor<2x3xf32>) -> tensor<2x3xi16>
  return
}

// -----

// Types of 2 to 8 bits are moved and converted.
func.func @narrow_arithmetic(%x: tensor<2x3xf8E5M2>) {
  // expected-error@+1 {{must be statically shaped tensor of any type but those of 2 to 8 bits that are only converted}}
  %0 = nn.add %x, %x : tensor<2x3xf8E5M2>
  return
}

// -----

func.func @narrow_root(%x: tensor<2x3xf8E5M2>) {
  // expected-error@+1 {{must be statically shaped tensor of floating-point}}
  %0 = nn.sqrt %x : tensor<2x3xf8E5M2>
  return
}
