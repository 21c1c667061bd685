// One broken constraint each; the names are those of the descriptions.
// RUN: kerf-opt --split-input-file --verify-diagnostics %s

exec.func @weight_c1_index() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{index is negative}}
  %w = exec.weight -1 : !exec.weight<4xf32>
  exec.return
}

// -----

exec.func @matmul_c1_view(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{lhs lies outside its buffer, 'memref<2x3xf32>'}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32> offset 1) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
  exec.return
}

// -----

exec.func @matmul_c1_rank(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{lhs has 1 strides for 2 dimensions}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32> strides [1]) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
  exec.return
}

// -----

exec.func @matmul_c1_overflow(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{lhs lies outside its buffer}}
  exec.matmul 0 "" m 2 n 4 k 9223372036854775807 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
  exec.return
}

// -----

exec.func @matmul_c1_batch(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{has 5 batch dimensions, expected at most 4}}
  exec.matmul 0 "" batch [1, 1, 1, 1, 1] m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
  exec.return
}

// -----

exec.func @matmul_c2_types(%x: memref<2x3xbf16>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operands of 'bf16' and 'f32', expected one type}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xbf16>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
  exec.return
}

// -----

exec.func @matmul_c3_bias(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %b = exec.weight 0 : !exec.weight<8xf32>
  // expected-error @below {{has a bias with strides}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) bias(%b : !exec.weight<8xf32> strides [2]) dst(%y : memref<2x4xf32>)
  exec.return
}

// -----

exec.func @matmul_c4_sum(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{adds what its destination held after something else, expected first}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>) then [relu, sum]
  exec.return
}

// -----

exec.func @matmul_c4_second_tensor(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{add lies outside its buffer}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>) then [add(%x : memref<2x3xf32>)]
  exec.return
}

// -----

exec.func @matmul_c4_count(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{has 1 second tensors, its epilogue takes 0}}
  "exec.matmul"(%x, %w, %y, %y) <{index = 0 : i64, node = "", m = 2 : i64, n = 4 : i64, k = 3 : i64,
    operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>}> : (memref<2x3xf32>, memref<3x4xf32>, memref<2x4xf32>, memref<2x4xf32>) -> ()
  exec.return
}

// -----

exec.func @matmul_c5_offers(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>, %s: memref<4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{offers a gradient and is not a plain product}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>) then [relu]
    sums(%s : memref<4xf32>) <of = rhs, rows = 1, kernel = 0>
  exec.return
}

// -----

exec.func @matmul_c5_sums(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>, %s: memref<3xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{writes 1 rows of 4 sums to 'memref<3xf32>'}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
    sums(%s : memref<3xf32>) <of = rhs, rows = 1, kernel = 0>
  exec.return
}

// -----

exec.func @conv_c4_sum(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{adds what its destination held which it cannot}}
  exec.conv 0 "" batch 1 channels 3 to 8 groups 1 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) weights(%w : memref<8x3x3xf32>) dst(%y : memref<1x8x8xf32>) then [sum]
  exec.return
}

// -----

exec.func @conv_c5_groups(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{has 2 groups of 3 and 8 channels}}
  exec.conv 0 "" batch 1 channels 3 to 8 groups 2 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) weights(%w : memref<8x3x3xf32>) dst(%y : memref<1x8x8xf32>)
  exec.return
}

// -----

exec.func @conv_c5_window(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{has a result of other sizes than its window gives}}
  exec.conv 0 "" batch 1 channels 3 to 8 groups 1 window <in [8] out [7] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) weights(%w : memref<8x3x3xf32>) dst(%y : memref<1x8x8xf32>)
  exec.return
}

// -----

exec.func @max_pool_gradient_c2(%x: memref<1x8x3xf64>, %dy: memref<1x4x3xf64>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operand is 'memref<1x8x3xf64>', expected elements of f32}}
  exec.max_pool_gradient 0 "" batch 1 channels 3 window <in [8] out [4] kernel [2] strides [2] low [0] high [0] dilations [1]>
    src(%x : memref<1x8x3xf64>) diff(%dy : memref<1x4x3xf64>) dst(%x : memref<1x8x3xf64>)
  exec.return
}

// -----

exec.func @avg_pool_gradient_c3(%x: memref<1x8x3xf32>, %dy: memref<1x4x3xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{count_high has 2 entries, expected 1}}
  exec.avg_pool_gradient 0 "" batch 1 channels 3 window <in [8] out [4] kernel [2] strides [2] low [0] high [0] dilations [1]>
    count_high [0, 0] diff(%dy : memref<1x4x3xf32>) dst(%x : memref<1x8x3xf32>)
  exec.return
}

// -----

exec.func @scatter_add_c2(%i: memref<6xi8>, %u: memref<6x4xf32>, %y: memref<10x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{indices are 'i8', expected i64 or i32}}
  exec.scatter_add 0 "" outer 1 rows 10 inner 4 count 6
    indices(%i : memref<6xi8>) updates(%u : memref<6x4xf32>) dst(%y : memref<10x4xf32>)
  exec.return
}

// -----

exec.func @scatter_c1(%i: memref<6xi64>, %u: memref<6x4xf32>, %y: memref<9x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{base lies outside its buffer, 'memref<9x4xf32>'}}
  exec.scatter 0 "" set outer 1 rows 10 inner 4 count 6
    indices(%i : memref<6xi64>) updates(%u : memref<6x4xf32>) base(%y : memref<9x4xf32>) dst(%y : memref<9x4xf32>)
  exec.return
}

// -----

exec.func @scatter_c2(%i: memref<6xi64>, %u: memref<6x4xf16>, %y: memref<10x4xf16>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{elements are 'f16', expected f32, f64, i32 or i64}}
  exec.scatter 0 "" set outer 1 rows 10 inner 4 count 6
    indices(%i : memref<6xi64>) updates(%u : memref<6x4xf16>) base(%y : memref<10x4xf16>) dst(%y : memref<10x4xf16>)
  exec.return
}

// -----

exec.func @top_k_c2(%x: memref<4x8xf32>, %y: memref<4x2xi32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{dst is of 'i32', expected i64}}
  exec.top_k 0 "" outer 4 rows 8 count 2 src(%x : memref<4x8xf32>) dst(%y : memref<4x2xi32>)
  exec.return
}

// -----

exec.func @top_k_c3(%x: memref<4x2xf32>, %y: memref<4x3xi64>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{count is 3, expected at most rows, 2}}
  exec.top_k 0 "" outer 4 rows 2 count 3 src(%x : memref<4x2xf32>) dst(%y : memref<4x3xi64>)
  exec.return
}

// -----

exec.func @greedy_suppress_c2(%b: memref<2x3x4xf64>, %s: memref<2x5x3xf32>, %t: memref<f32>, %m: memref<i64>, %y: memref<2x5x2xi64>)
    attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{boxes, scores and threshold are of 'f64', expected f32}}
  exec.greedy_suppress 0 "" outer 2 classes 5 rows 3 count 2 boxes(%b : memref<2x3x4xf64>) scores(%s : memref<2x5x3xf32>)
    threshold(%t : memref<f32>) most(%m : memref<i64>) dst(%y : memref<2x5x2xi64>)
  exec.return
}

// -----

exec.func @greedy_suppress_c2_numbers(%b: memref<2x3x4xf32>, %s: memref<2x5x3xf32>, %t: memref<f32>, %m: memref<i64>, %y: memref<2x5x2xi32>)
    attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{most and dst are of 'i32', expected i64}}
  exec.greedy_suppress 0 "" outer 2 classes 5 rows 3 count 2 boxes(%b : memref<2x3x4xf32>) scores(%s : memref<2x5x3xf32>)
    threshold(%t : memref<f32>) most(%m : memref<i64>) dst(%y : memref<2x5x2xi32>)
  exec.return
}

// -----

exec.func @greedy_suppress_c3(%b: memref<2x3x4xf32>, %s: memref<2x5x3xf32>, %t: memref<f32>, %m: memref<i64>, %y: memref<2x5x4xi64>)
    attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{count is 4, expected at most rows, 3}}
  exec.greedy_suppress 0 "" outer 2 classes 5 rows 3 count 4 boxes(%b : memref<2x3x4xf32>) scores(%s : memref<2x5x3xf32>)
    threshold(%t : memref<f32>) most(%m : memref<i64>) dst(%y : memref<2x5x4xi64>)
  exec.return
}

// -----

exec.func @attention_c2(%q: memref<1x2x4x8xf32>, %s: memref<1x2x4xf64>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{stats are of 'f64', expected f32}}
  exec.attention 0 "" sizes <batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8, value_size = 8> scale 1.0
    q(%q : memref<1x2x4x8xf32>) k(%q : memref<1x2x4x8xf32>) v(%q : memref<1x2x4x8xf32>) dst(%q : memref<1x2x4x8xf32>) stats(%s : memref<1x2x4xf64>)
  exec.return
}

// -----

exec.func @conv_c2_types(%x: memref<1x8x3xf32>, %w: memref<8x3x3xbf16>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operands of 'f32' and 'bf16', expected one type}}
  exec.conv 0 "" batch 1 channels 3 to 8 groups 1 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) weights(%w : memref<8x3x3xbf16>) dst(%y : memref<1x8x8xf32>)
  exec.return
}

// -----

exec.func @conv_c3_bias(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %b = exec.weight 0 : !exec.weight<16xf32>
  // expected-error @below {{has a bias with strides}}
  exec.conv 0 "" batch 1 channels 3 to 8 groups 1 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) weights(%w : memref<8x3x3xf32>) bias(%b : !exec.weight<16xf32> strides [2]) dst(%y : memref<1x8x8xf32>)
  exec.return
}

// -----

exec.func @conv_input_gradient_c2(%x: memref<1x8x3xf32>, %w: memref<8x3x3xbf16>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operands of 'f32' and 'bf16', expected one type}}
  exec.conv_input_gradient 0 "" batch 1 channels 3 to 8 groups 1 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    diff(%y : memref<1x8x8xf32>) weights(%w : memref<8x3x3xbf16>) dst(%x : memref<1x8x3xf32>)
  exec.return
}

// -----

exec.func @conv_input_gradient_c3(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{has 2 groups of 3 and 8 channels}}
  exec.conv_input_gradient 0 "" batch 1 channels 3 to 8 groups 2 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    diff(%y : memref<1x8x8xf32>) weights(%w : memref<8x3x3xf32>) dst(%x : memref<1x8x3xf32>)
  exec.return
}

// -----

exec.func @conv_weight_gradient_c2(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xbf16>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operands of 'f32' and 'bf16', expected one type}}
  exec.conv_weight_gradient 0 "" batch 1 channels 3 to 8 groups 1 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) diff(%y : memref<1x8x8xbf16>) dst(%w : memref<8x3x3xf32>)
  exec.return
}

// -----

exec.func @conv_weight_gradient_c3(%x: memref<1x8x3xf32>, %w: memref<8x3x3xf32>, %y: memref<1x8x8xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{has 2 groups of 3 and 8 channels}}
  exec.conv_weight_gradient 0 "" batch 1 channels 3 to 8 groups 2 window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
    src(%x : memref<1x8x3xf32>) diff(%y : memref<1x8x8xf32>) dst(%w : memref<8x3x3xf32>)
  exec.return
}

// -----

exec.func @avg_pool_gradient_c2(%x: memref<1x8x3xf64>, %dy: memref<1x4x3xf64>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operand is 'memref<1x4x3xf64>', expected elements of f32}}
  exec.avg_pool_gradient 0 "" batch 1 channels 3 window <in [8] out [4] kernel [2] strides [2] low [0] high [0] dilations [1]>
    diff(%dy : memref<1x4x3xf64>) dst(%x : memref<1x8x3xf64>)
  exec.return
}

// -----

exec.func @scatter_add_c1(%i: memref<6xi64>, %u: memref<6x4xf32>, %y: memref<9x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{dst lies outside its buffer, 'memref<9x4xf32>'}}
  exec.scatter_add 0 "" outer 1 rows 10 inner 4 count 6
    indices(%i : memref<6xi64>) updates(%u : memref<6x4xf32>) dst(%y : memref<9x4xf32>)
  exec.return
}

// -----

exec.func @attention_gradient_c2(%q: memref<1x2x4x8xf32>, %k: memref<1x2x4x8xf16>, %s: memref<1x2x4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{operands of 'f32' and 'f16', expected one type}}
  exec.attention_gradient 0 "" sizes <batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8, value_size = 8> scale 1.0
    q(%q : memref<1x2x4x8xf32>) k(%k : memref<1x2x4x8xf16>) v(%q : memref<1x2x4x8xf32>) out(%q : memref<1x2x4x8xf32>)
    stats(%s : memref<1x2x4xf32>) diff(%q : memref<1x2x4x8xf32>) dst(%q : memref<1x2x4x8xf32>) dk(%q : memref<1x2x4x8xf32>)
    dv(%q : memref<1x2x4x8xf32>)
  exec.return
}

// -----

// view_c1
// expected-error @below {{view has a negative stride or offset}}
module attributes {test.a = #exec.view<strides [-1]>} {}

// -----

// view_c2
// expected-error @below {{expected strides or an offset}}
module attributes {test.a = #exec.view<>} {}

// -----

// window_c1
// expected-error @below {{window has a list of 1 entries, expected 2}}
module attributes {test.a = #exec.window<in [8, 8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>} {}

// -----

// window_c2
// expected-error @below {{window has a kernel, stride or dilation below 1}}
module attributes {test.a = #exec.window<in [8] out [8] kernel [0] strides [1] low [1] high [1] dilations [1]>} {}

// -----

// attention_c1
// expected-error @below {{key_heads is 2, expected a divisor of heads, 3}}
module attributes {test.a = #exec.attention<batch = 1, heads = 3, key_heads = 2, queries = 4, keys = 4, head_size = 8, value_size = 8>} {}

// -----

// attention_c2
// expected-error @below {{attention has no keys or a negative size}}
module attributes {test.a = #exec.attention<batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 0, head_size = 8, value_size = 8>} {}

// -----

// post_op_c2
// expected-error @below {{relu has a view but no second tensor}}
module attributes {test.a = #exec.post_op<relu strides [1]>} {}

// -----

// post_op_kind
// expected-error @below {{unknown step of an epilogue 'polish'}}
module attributes {test.a = #exec.post_op<polish>} {}

// -----

// bias_gradient_c1
// expected-error @below {{bias_gradient has 0 rows, expected at least 1}}
module attributes {test.a = #exec.bias_gradient<of = lhs, rows = 0, kernel = 0>} {}

// -----

// gpu_kernel_c1
// expected-error @below {{grid and block have 1 and 3 dimensions, expected 3}}
module attributes {test.a = #exec.gpu_kernel<"k" grid [1] block [1, 1, 1] bytes [] reads 0>} {}

// -----

// gpu_kernel_c2
// expected-error @below {{reads is 2 of 1 buffers}}
module attributes {test.a = #exec.gpu_kernel<"k" grid [1, 1, 1] block [1, 1, 1] bytes [4] reads 2>} {}
