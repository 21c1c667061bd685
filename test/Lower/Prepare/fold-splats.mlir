// RUN: kerf-opt %s --kerf-fold-splats | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK: nn.mul %{{.*}}, %[[HALF]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.constant dense<4.0> : tensor<f32>
  %1 = nn.rsqrt %0 : tensor<f32>
  %2 = nn.mul %x, %1 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
