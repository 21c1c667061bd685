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

// -----

// Gradients of convolutions are products too; the library takes them in float32 alone, operands as well.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = nn.conv_input_gradient {{.*}} : tensor<1x4x4x4xf32> -> tensor<1x8x8x3xf32>
// CHECK: nn.cast %[[X]] : (tensor<1x8x8x3xf32>) -> tensor<1x8x8x3xf16>
// CHECK: %[[W:.*]] = nn.conv_weight_gradient {{.*}} : tensor<1x8x8x3xf32>, tensor<1x4x4x4xf32>
// CHECK: nn.cast %[[W]] : (tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf16>
func.func @main(%w: tensor<4x3x3x3xf16>, %x: tensor<1x8x8x3xf16>, %dy: tensor<1x4x4x4xf16>) -> (tensor<1x8x8x3xf16>, tensor<4x3x3x3xf16>) {
  %0 = nn.conv_input_gradient %dy, %w kernel 3x3 strides 2x2 pad 1x1 : tensor<1x4x4x4xf16> -> tensor<1x8x8x3xf16>
  %1 = nn.conv_weight_gradient %x, %dy kernel 3x3 strides 2x2 pad 1x1 : tensor<1x8x8x3xf16>, tensor<1x4x4x4xf16>
  return %0, %1 : tensor<1x8x8x3xf16>, tensor<4x3x3x3xf16>
}

// -----

// The cast to float32 right behind a product goes before another reader gets
// the rounded result.
// CHECK-LABEL: func.func @both(
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK-NEXT: %[[H:.*]] = nn.cast %[[P]] : (tensor<4x4xf32>) -> tensor<4x4xf16>
// CHECK-NEXT: %[[N:.*]] = nn.neg %[[H]]
// CHECK-NEXT: return %[[P]], %[[N]]
func.func @both(%a: tensor<4x8xf16>, %b: tensor<8x4xf16>) -> (tensor<4x4xf32>, tensor<4x4xf16>) {
  %p = nn.matmul %a, %b : (tensor<4x8xf16>, tensor<8x4xf16>) -> tensor<4x4xf16>
  %w = nn.cast %p : (tensor<4x4xf16>) -> tensor<4x4xf32>
  %n = nn.neg %p : tensor<4x4xf16>
  return %w, %n : tensor<4x4xf32>, tensor<4x4xf16>
}
