// RUN: kerf-opt %s --kerf-simplify-import | FileCheck %s
// REQUIRES: kerf-opt

// Nine ops of an older exporter are one layer_norm with its scale and bias.
// CHECK-LABEL: @layer_norm
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>, %[[S:.*]]: tensor<4xf32>)
func.func @layer_norm(%x: tensor<2x4xf32>, %s: tensor<4xf32>) -> tensor<2x4xf32> {
  // CHECK: %[[B:.*]] = nn.weight "b"
  // CHECK: %[[R:.*]] = nn.layer_norm %[[X]], %[[S]], %[[B]] dim 1
  // CHECK-NEXT: return %[[R]]
  %b = nn.weight "b" file 0 at 0 : tensor<4xf32>
  %n = nn.constant dense<0.25> : tensor<f32>
  %eps = nn.constant dense<1.0e-5> : tensor<f32>
  %0 = nn.reduce sum %x dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = nn.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = nn.mul %1, %n : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.sub %x, %2 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %4 = nn.mul %3, %3 : tensor<2x4xf32>
  %5 = nn.reduce sum %4 dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = nn.reshape %5 : (tensor<2xf32>) -> tensor<2x1xf32>
  %7 = nn.mul %6, %n : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %8 = nn.add %7, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %9 = nn.sqrt %8 : tensor<2x1xf32>
  %10 = nn.div %3, %9 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %11 = nn.mul %10, %s : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %12 = nn.add %11, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %12 : tensor<2x4xf32>
}

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<2x4xf32>, %s: tensor<4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: nn.rms_norm %arg0, %arg1
  // CHECK-NEXT: return
  %n = nn.constant dense<0.25> : tensor<f32>
  %eps = nn.constant dense<1.0e-6> : tensor<f32>
  %0 = nn.mul %x, %x : tensor<2x4xf32>
  %1 = nn.reduce sum %0 dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %2 = nn.mul %1, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = nn.reshape %2 : (tensor<2xf32>) -> tensor<2x1xf32>
  %4 = nn.add %3, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %5 = nn.sqrt %4 : tensor<2x1xf32>
  %6 = nn.reciprocal %5 : tensor<2x1xf32>
  %7 = nn.mul %x, %6 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %8 = nn.mul %s, %7 : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %8 : tensor<2x4xf32>
}

// A sum divided by the wrong count is no mean.
// CHECK-LABEL: @not_a_mean
func.func @not_a_mean(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NOT: nn.rms_norm
  // CHECK: return
  %n = nn.constant dense<0.5> : tensor<f32>
  %eps = nn.constant dense<1.0e-6> : tensor<f32>
  %0 = nn.mul %x, %x : tensor<2x4xf32>
  %1 = nn.reduce sum %0 dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %2 = nn.mul %1, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = nn.reshape %2 : (tensor<2xf32>) -> tensor<2x1xf32>
  %4 = nn.add %3, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %5 = nn.rsqrt %4 : tensor<2x1xf32>
  %6 = nn.mul %x, %5 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}

// x/2 (1 + erf(x / sqrt 2)), the factors in any order.
// CHECK-LABEL: @gelu_erf
func.func @gelu_erf(%x: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: %[[R:.*]] = nn.gelu %arg0 :
  // CHECK-NEXT: return %[[R]]
  %r = nn.constant dense<1.41421354> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %0 = nn.div %x, %r : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = nn.erf %0 : tensor<3xf32>
  %2 = nn.add %1, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = nn.mul %x, %2 : tensor<3xf32>
  %4 = nn.mul %3, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %4 : tensor<3xf32>
}

// The tanh form; x is itself a sum (a bias), which must not be taken apart.
// CHECK-LABEL: @gelu_tanh
func.func @gelu_tanh(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: %[[X:.*]] = nn.add %arg0, %arg1
  // CHECK-NEXT: %[[R:.*]] = nn.gelu %[[X]] {tanh}
  // CHECK-NEXT: return %[[R]]
  %c = nn.constant dense<4.471500e-02> : tensor<f32>
  %k = nn.constant dense<0.797884583> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %x = nn.add %a, %b : tensor<3xf32>
  %0 = nn.mul %x, %x : tensor<3xf32>
  %1 = nn.mul %0, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = nn.add %1, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = nn.mul %x, %k : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %4 = nn.mul %3, %2 : tensor<3xf32>
  %5 = nn.tanh %4 : tensor<3xf32>
  %6 = nn.add %5, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %7 = nn.mul %x, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %8 = nn.mul %7, %6 : tensor<3xf32>
  return %8 : tensor<3xf32>
}

// Another constant in the cube is another function.
// CHECK-LABEL: @not_gelu
func.func @not_gelu(%x: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK-NOT: nn.gelu
  // CHECK: return
  %r = nn.constant dense<1.5> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %0 = nn.div %x, %r : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = nn.erf %0 : tensor<3xf32>
  %2 = nn.add %1, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = nn.mul %x, %2 : tensor<3xf32>
  %4 = nn.mul %3, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %4 : tensor<3xf32>
}

// CHECK-LABEL: @silu
func.func @silu(%x: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: %[[R:.*]] = nn.silu %arg0 :
  // CHECK-NEXT: return %[[R]]
  %0 = nn.sigmoid %x : tensor<3xf32>
  %1 = nn.mul %0, %x : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// A gate of another number, and one that is read elsewhere.
// CHECK-LABEL: @not_silu
func.func @not_silu(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK-NOT: nn.silu
  // CHECK: return
  %0 = nn.sigmoid %x : tensor<3xf32>
  %1 = nn.mul %0, %y : tensor<3xf32>
  %2 = nn.sigmoid %y : tensor<3xf32>
  %3 = nn.mul %2, %y : tensor<3xf32>
  return %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: @softmax
func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: nn.softmax %arg0 dim 1
  // CHECK-NEXT: return
  %0 = nn.reduce max %x dims [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  %1 = nn.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = nn.sub %x, %1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %3 = nn.exp %2 : tensor<2x3xf32>
  %4 = nn.reduce sum %3 dims [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  %5 = nn.reshape %4 : (tensor<2xf32>) -> tensor<2x1xf32>
  %6 = nn.div %3, %5 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  return %6 : tensor<2x3xf32>
}

// Divided along the other dimension of a square: not a softmax.
// CHECK-LABEL: @not_softmax
func.func @not_softmax(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  // CHECK-NOT: nn.softmax
  // CHECK: return
  %3 = nn.exp %x : tensor<3x3xf32>
  %4 = nn.reduce sum %3 dims [1] : (tensor<3x3xf32>) -> tensor<3xf32>
  %6 = nn.div %3, %4 : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  return %6 : tensor<3x3xf32>
}
