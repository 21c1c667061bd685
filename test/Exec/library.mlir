// Every library call is read as it is printed, in its own and in the generic form. The texts are those of the descriptions.
// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// Windows and sizes have names.
// CHECK-DAG: #[[SAME:.*]] = #exec.window<in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
// CHECK-DAG: #[[HALF:.*]] = #exec.window<in [8] out [4] kernel [2] strides [2] low [0] high [0] dilations [1]>
// CHECK-DAG: #[[SIZES:.*]] = #exec.attention<batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8, value_size = 8>
exec.func @products(%x: memref<2x3xf32>, %r: memref<2x4xf32>, %y: memref<2x4xf32>, %s: memref<4xf32>, %dw: memref<3x4xf32>)
    attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // CHECK: %[[W:.*]] = exec.weight 7 : !exec.weight<4x3xf32>
  %w = exec.weight 7 : !exec.weight<4x3xf32>
  %b = exec.weight 8 : !exec.weight<4xf32>
  // CHECK: exec.matmul 0 "/fc" m 2 n 4 k 3 lhs(%{{.*}} : memref<2x3xf32>) rhs(%[[W]] : !exec.weight<4x3xf32> strides [1, 3])
  // CHECK-SAME: bias(%{{.*}} : !exec.weight<4xf32>) dst(%{{.*}} : memref<2x4xf32>) then [add(%{{.*}} : memref<2x4xf32>), relu]
  exec.matmul 0 "/fc" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : !exec.weight<4x3xf32> strides [1, 3])
      bias(%b : !exec.weight<4xf32>) dst(%y : memref<2x4xf32>) then [add(%r : memref<2x4xf32>), relu]
  // CHECK: exec.matmul 1 "/fc" phase backward batch [1] m 3 n 4 k 2 lhs(%{{.*}} strides [6, 1, 3])
  exec.matmul 1 "/fc" phase backward batch [1] m 3 n 4 k 2 lhs(%x : memref<2x3xf32> strides [6, 1, 3])
      rhs(%r : memref<2x4xf32>) dst(%dw : memref<3x4xf32>) then [sum, linear(5.000000e-01, 0.000000e+00), mul(%s : memref<4xf32> strides [0, 0, 1])]
  // CHECK: exec.matmul 2 "" {{.*}} sums(%{{.*}} : memref<4xf32>) <of = rhs, rows = 1, kernel = 3>
  exec.matmul 2 "" m 3 n 4 k 2 lhs(%x : memref<2x3xf32> strides [1, 3]) rhs(%r : memref<2x4xf32>) dst(%dw : memref<3x4xf32>)
      sums(%s : memref<4xf32>) <of = rhs, rows = 1, kernel = 3>
  // CHECK: exec.matmul 3 "" {{.*}} relu_gradient <forward = 0, kernel = 4>
  exec.matmul 3 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : !exec.weight<4x3xf32> strides [1, 3]) dst(%y : memref<2x4xf32>)
      relu_gradient <forward = 0, kernel = 4>
  // CHECK: exec.matmul 4 "" {{.*}} then [gelu_tanh_gradient(%{{.*}} : memref<2x4xf32>)]
  // CHECK-SAME: cuda <"kerf_c4" grid [1, 1, 1] block [256, 1, 1] bytes [32, 32, 32] reads 2 arguments [1, 2, 1]>
  exec.matmul 4 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : !exec.weight<4x3xf32> strides [1, 3]) dst(%y : memref<2x4xf32>)
      then [gelu_tanh_gradient(%r : memref<2x4xf32>)]
      cuda <"kerf_c4" grid [1, 1, 1] block [256, 1, 1] bytes [32, 32, 32] reads 2 arguments [1, 2, 1]>
  exec.return
}

exec.func @windows(%x: memref<1x8x3xf32>, %y: memref<1x8x8xf32>, %dy: memref<1x4x3xf32>, %dw: memref<8x3x3xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %w = exec.weight 2 : !exec.weight<8x3x3xf32>
  %b = exec.weight 3 : !exec.weight<16xf32>
  // CHECK: exec.conv 1 "/conv1" batch 1 channels 3 to 8 groups 1 window #[[SAME]]
  // CHECK-SAME: src(%{{.*}} : memref<1x8x3xf32>) weights(%{{.*}} : !exec.weight<8x3x3xf32>)
  // CHECK-SAME: bias(%{{.*}} : !exec.weight<16xf32> offset 8) dst(%{{.*}} : memref<1x8x8xf32>) then [relu]
  exec.conv 1 "/conv1" batch 1 channels 3 to 8 groups 1
      window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
      src(%x : memref<1x8x3xf32>) weights(%w : !exec.weight<8x3x3xf32>) bias(%b : !exec.weight<16xf32> offset 8)
      dst(%y : memref<1x8x8xf32>) then [relu]
  // CHECK: exec.conv_input_gradient 2 {{.*}} diff(%{{.*}} : memref<1x8x8xf32>) weights(
  exec.conv_input_gradient 2 "/conv1" batch 1 channels 3 to 8 groups 1
      window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
      diff(%y : memref<1x8x8xf32>) weights(%w : !exec.weight<8x3x3xf32>) dst(%x : memref<1x8x3xf32>)
  // CHECK: exec.conv_weight_gradient 3 {{.*}} src(%{{.*}} : memref<1x8x3xf32>) diff(
  exec.conv_weight_gradient 3 "/conv1" batch 1 channels 3 to 8 groups 1
      window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
      src(%x : memref<1x8x3xf32>) diff(%y : memref<1x8x8xf32>) dst(%dw : memref<8x3x3xf32>)
  // CHECK: exec.max_pool_gradient 4 "/pool" batch 1 channels 3 window #[[HALF]] src(
  exec.max_pool_gradient 4 "/pool" batch 1 channels 3
      window <in [8] out [4] kernel [2] strides [2] low [0] high [0] dilations [1]>
      src(%x : memref<1x8x3xf32>) diff(%dy : memref<1x4x3xf32>) dst(%x : memref<1x8x3xf32>)
  // CHECK: exec.avg_pool_gradient 5 "/pool" {{.*}} count_padding count_high [0] diff(
  exec.avg_pool_gradient 5 "/pool" batch 1 channels 3
      window <in [8] out [4] kernel [3] strides [2] low [0] high [1] dilations [1]> count_padding count_high [0]
      diff(%dy : memref<1x4x3xf32>) dst(%x : memref<1x8x3xf32>)
  exec.return
}

exec.func @rows(%i: memref<6xi64>, %u: memref<6x4xf32>, %base: memref<10x4xf32>, %y: memref<10x4xf32>)
    attributes {num_inputs = 3 : i64, stage = 0 : i64, phase = #exec<phase backward>} {
  // CHECK: exec.scatter_add 6 "/wte" outer 1 rows 10 inner 4 count 6 partial indices(%{{.*}} : memref<6xi64>)
  // CHECK-SAME: updates(%{{.*}} : memref<6x4xf32>) base(%{{.*}} : memref<10x4xf32>) dst(%{{.*}} : memref<10x4xf32>)
  exec.scatter_add 6 "/wte" outer 1 rows 10 inner 4 count 6 partial
      indices(%i : memref<6xi64>) updates(%u : memref<6x4xf32>) base(%base : memref<10x4xf32>) dst(%y : memref<10x4xf32>)
  exec.return
}

exec.func @indexed(%i: memref<2x3xi64>, %u: memref<2x3x4xi32>, %x: memref<2x10x4xi32>, %y: memref<2x10x4xi32>, %k: memref<2x5xi64>)
    attributes {num_inputs = 3 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // CHECK: exec.scatter 6 "/cache" min outer 2 rows 10 inner 4 count 3 partial indices(%{{.*}} : memref<2x3xi64>)
  // CHECK-SAME: updates(%{{.*}} : memref<2x3x4xi32>) base(%{{.*}} : memref<2x10x4xi32>) dst(%{{.*}} : memref<2x10x4xi32>)
  exec.scatter 6 "/cache" min outer 2 rows 10 inner 4 count 3 partial
      indices(%i : memref<2x3xi64>) updates(%u : memref<2x3x4xi32>) base(%x : memref<2x10x4xi32>) dst(%y : memref<2x10x4xi32>)
  // CHECK: exec.top_k 8 "/router" outer 2 rows 40 count 5 smallest src(%{{.*}} : memref<2x10x4xi32>) dst(%{{.*}} : memref<2x5xi64>)
  exec.top_k 8 "/router" outer 2 rows 40 count 5 smallest src(%x : memref<2x10x4xi32>) dst(%k : memref<2x5xi64>)
  exec.return
}

exec.func @greedy_suppress(%b: memref<2x3x4xf32>, %s: memref<2x5x3xf32>, %t: memref<f32>, %m: memref<i64>, %y: memref<2x5x2xi64>)
    attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // CHECK: exec.greedy_suppress 9 "/nms" outer 2 classes 5 rows 3 count 2 boxes(%{{[a-z0-9]+}} : memref<2x3x4xf32>)
  // CHECK-SAME: scores(%{{[a-z0-9]+}} : memref<2x5x3xf32>) threshold(%{{.*}} : memref<f32>) most(%{{.*}} : memref<i64>)
  // CHECK-SAME: dst(%{{.*}} : memref<2x5x2xi64>)
  exec.greedy_suppress 9 "/nms" outer 2 classes 5 rows 3 count 2 boxes(%b : memref<2x3x4xf32>) scores(%s : memref<2x5x3xf32>)
    threshold(%t : memref<f32>) most(%m : memref<i64>) dst(%y : memref<2x5x2xi64>)
  exec.return
}

exec.func @attention(%q: memref<1x2x4x8xf32>, %m: memref<4xf32>, %y: memref<1x4x2x8xf32>, %s: memref<1x2x4xf32>)
    attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // CHECK: exec.attention 7 "/attn" sizes #[[SIZES]]
  // CHECK-SAME: scale 1.250000e-01 causal q(%{{.*}} bias(%{{.*}} : memref<4xf32> strides [0, 0, 0, 1])
  // CHECK-SAME: dst(%{{.*}} : memref<1x4x2x8xf32> strides [64, 8, 16, 1]) stats(%{{.*}} : memref<1x2x4xf32>)
  exec.attention 7 "/attn" sizes <batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8,
      value_size = 8> scale 0.125 causal q(%q : memref<1x2x4x8xf32>) k(%q : memref<1x2x4x8xf32>)
      v(%q : memref<1x2x4x8xf32>) bias(%m : memref<4xf32> strides [0, 0, 0, 1])
      dst(%y : memref<1x4x2x8xf32> strides [64, 8, 16, 1]) stats(%s : memref<1x2x4xf32>)
  // CHECK: exec.attention_gradient 8 "/attn" {{.*}} out(%{{.*}} stats(%{{.*}} diff(%{{.*}} dst(%{{.*}} dk(%{{.*}} dv(%{{.*}} : memref<1x2x4x8xf32>)
  exec.attention_gradient 8 "/attn" sizes <batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8,
      value_size = 8> scale 0.125 q(%q : memref<1x2x4x8xf32>) k(%q : memref<1x2x4x8xf32>) v(%q : memref<1x2x4x8xf32>)
      out(%q : memref<1x2x4x8xf32>) stats(%s : memref<1x2x4xf32>) diff(%q : memref<1x2x4x8xf32>)
      dst(%q : memref<1x2x4x8xf32>) dk(%q : memref<1x2x4x8xf32>) dv(%q : memref<1x2x4x8xf32>)
  exec.return
}
