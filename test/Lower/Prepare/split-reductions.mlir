// RUN: kerf-opt %s --split-input-file --kerf-split-reductions | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[PARTS:.*]] = nn.reshape %{{.*}} : (tensor<65536x4xf32>) -> tensor<64x1024x4xf32>
// CHECK: %[[SUMS:.*]] = nn.reduce sum %[[PARTS]] {{.*}} -> tensor<64x4xf32>
// CHECK: nn.reduce sum %[[SUMS]] {{.*}} -> tensor<4xf32>
func.func @main(%x: tensor<65536x4xf32>) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims [0] : (tensor<65536x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Short ones stay whole.
// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.reshape
func.func @main(%x: tensor<64x4xf32>) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims [0] : (tensor<64x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
