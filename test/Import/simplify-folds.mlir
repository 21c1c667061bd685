// RUN: kerf-opt %s --kerf-simplify-import | FileCheck %s
// REQUIRES: kerf-opt

// A causal mask is computed at import.
// CHECK-LABEL: @causal
func.func @causal() -> tensor<3x3xf32> {
  // CHECK-NEXT{LITERAL}: nn.constant dense<[[0.000000e+00, -1.000000e+00, -1.000000e+00],
  // CHECK-SAME{LITERAL}: [0.000000e+00, 0.000000e+00, -1.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00]]>
  // CHECK-NEXT: return
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-1.0> : tensor<f32>
  %i = nn.constant dense<[0, 1, 2]> : tensor<3xi64>
  %r = nn.reshape %i : (tensor<3xi64>) -> tensor<3x1xi64>
  %c = nn.less %r, %i : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi1>
  %m = nn.select %c, %low, %zero : (tensor<3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<3x3xf32>
  return %m : tensor<3x3xf32>
}

// A mask that was expanded over the batch shrinks to what differs.
// CHECK-LABEL: @expanded_mask
func.func @expanded_mask(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK-NEXT{LITERAL}: nn.constant dense<[[0.000000e+00, 1.000000e+00]]> : tensor<1x2xf32>
  // CHECK-NEXT: nn.add
  %m = nn.constant dense<[[0.0, 1.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %0 = nn.add %x, %m : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// Integer division by zero is left for the run to report.
// CHECK-LABEL: @division_by_zero
func.func @division_by_zero() -> tensor<i64> {
  // CHECK: nn.div
  %a = nn.constant dense<1> : tensor<i64>
  %b = nn.constant dense<0> : tensor<i64>
  %0 = nn.div %a, %b : tensor<i64>
  return %0 : tensor<i64>
}

// A parameter that is a literal is not computed with: it has a name.
// CHECK-LABEL: @parameter
func.func @parameter() -> tensor<2xf32> {
  // CHECK: nn.relu
  %a = nn.constant {name = "w"} dense<1.0> : tensor<2xf32>
  %0 = nn.relu %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// Both factors of attention's scale become one.
// CHECK-LABEL: @scale_once
func.func @scale_once(%q: tensor<2x3xf32>, %k: tensor<2x3xf32>) -> tensor<2x2xf32> {
  // CHECK: %[[C:.*]] = nn.constant dense<2.500000e-01>
  // CHECK: %[[Q:.*]] = nn.mul %arg0, %[[C]]
  // CHECK: nn.matmul %[[Q]], %arg1 {transpose_rhs}
  %c = nn.constant dense<0.5> : tensor<f32>
  %0 = nn.mul %q, %c : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = nn.mul %k, %c : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = nn.matmul %0, %1 {transpose_rhs} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// The guard against rows that are masked whole goes where no row is ...
// CHECK-LABEL: @guard_dropped
func.func @guard_dropped(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK-NOT: nn.is_nan
  // CHECK: return
  %zero = nn.constant dense<0.0> : tensor<f32>
  %m = nn.constant dense<[[0.0, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = nn.add %x, %m : tensor<2x2xf32>
  %1 = nn.softmax %0 dim 1 : tensor<2x2xf32>
  %2 = nn.is_nan %1 : (tensor<2x2xf32>) -> tensor<2x2xi1>
  %3 = nn.select %2, %zero, %1 : (tensor<2x2xi1>, tensor<f32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}

// ... and stays where one is.
// CHECK-LABEL: @guard_kept
func.func @guard_kept(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK: nn.is_nan
  %zero = nn.constant dense<0.0> : tensor<f32>
  %m = nn.constant dense<[[0xFF800000, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = nn.add %x, %m : tensor<2x2xf32>
  %1 = nn.softmax %0 dim 1 : tensor<2x2xf32>
  %2 = nn.is_nan %1 : (tensor<2x2xf32>) -> tensor<2x2xi1>
  %3 = nn.select %2, %zero, %1 : (tensor<2x2xi1>, tensor<f32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}

// What repeats is computed once, however large it is: a batch of masks.
// CHECK-LABEL: func.func @mask_of_a_batch(
// CHECK-NEXT: %[[M:.*]] = nn.constant dense<{{\[\[\[}}true, false], [true, true{{\]\]\]}}> : tensor<1x2x2xi1>
// CHECK-NEXT: %[[R:.*]] = nn.broadcast %[[M]] : (tensor<1x2x2xi1>) -> tensor<10000000x2x2xi1>
// CHECK-NEXT: return %[[R]]
func.func @mask_of_a_batch() -> tensor<10000000x2x2xi1> {
  %k = nn.constant dense<[0, 1]> : tensor<2xi64>
  %q = nn.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %0 = nn.broadcast %k : (tensor<2xi64>) -> tensor<10000000x2x2xi64>
  %1 = nn.broadcast %q : (tensor<2x1xi64>) -> tensor<10000000x2x2xi64>
  %2 = nn.reshape %0 : (tensor<10000000x2x2xi64>) -> tensor<10000000x1x2x2xi64>
  %3 = nn.reshape %1 : (tensor<10000000x2x2xi64>) -> tensor<10000000x1x2x2xi64>
  %4 = nn.less_equal %2, %3 : (tensor<10000000x1x2x2xi64>, tensor<10000000x1x2x2xi64>) -> tensor<10000000x1x2x2xi1>
  %5 = nn.reshape %4 : (tensor<10000000x1x2x2xi1>) -> tensor<10000000x2x2xi1>
  return %5 : tensor<10000000x2x2xi1>
}
