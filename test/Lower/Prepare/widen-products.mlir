// RUN: kerf-opt %s --split-input-file --kerf-widen-products | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = nn.matmul {{.*}} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
// CHECK: %[[R:.*]] = nn.cast %[[P]] : (tensor<2x4xf32>) -> tensor<2x4xf16>
// What is wanted in float32 is not rounded in between.
// CHECK: return %[[P]], %[[R]]
func.func @main(%x: tensor<2x3xf16>, %w: tensor<3x4xf16>) -> (tensor<2x4xf32>, tensor<2x4xf16>) {
  %0 = nn.matmul %x, %w : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  %1 = nn.cast %0 : (tensor<2x4xf16>) -> tensor<2x4xf32>
  return %1, %0 : tensor<2x4xf32>, tensor<2x4xf16>
}

// -----

// A target that has them keeps them.
// CHECK-LABEL: func.func @main
// CHECK: nn.matmul {{.*}} -> tensor<2x4xf16>
module attributes {exec.target = #exec.target<cpu, half_products = true>} {
  func.func @main(%x: tensor<2x3xf16>, %w: tensor<3x4xf16>) -> tensor<2x4xf16> {
    %0 = nn.matmul %x, %w : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
    return %0 : tensor<2x4xf16>
  }
}
