// RUN: kerf-opt %s --split-input-file --kerf-move-scale | FileCheck %s
// REQUIRES: kerf-opt

// The 1/sqrt(d) of attention moves behind the product of queries and keys.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[Q:.*]]: tensor<2x3x4xf32>, %[[K:.*]]: tensor<2x3x4xf32>
// CHECK: %[[P:.*]] = nn.matmul %[[Q]], %[[K]]
// CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01>
// CHECK: nn.mul %[[P]], %[[HALF]]
func.func @main(%q: tensor<2x3x4xf32>, %k: tensor<2x3x4xf32>) -> tensor<2x3x3xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.div %q, %two : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %1 = nn.matmul %0, %k {transpose_rhs} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  return %1 : tensor<2x3x3xf32>
}

// -----

// In front of weights it stays: the bias comes next behind the product.
// CHECK-LABEL: func.func @main
// CHECK: nn.mul
// CHECK: nn.matmul
// CHECK-NOT: nn.mul
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %w = nn.weight "w" file 0 at 0 : tensor<4x3xf32>
  %0 = nn.mul %x, %two : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: %[[SQUARE:.*]] = nn.mul %[[X:.*]], %[[X]]
// CHECK: nn.mul %[[SQUARE]], %[[X]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = nn.constant dense<3.0> : tensor<f32>
  %0 = nn.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
