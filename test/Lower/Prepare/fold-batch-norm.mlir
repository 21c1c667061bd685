// RUN: kerf-opt %s --split-input-file --kerf-fold-batch-norm | FileCheck %s
// REQUIRES: kerf-opt

// Into the convolution in front: its weights are scaled, the shift is added behind it.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK: %[[S:.*]] = nn.mul %{{.*}}, %{{.*}} : tensor<8xf32>
// CHECK: %[[COLUMN:.*]] = nn.reshape %[[S]] : (tensor<8xf32>) -> tensor<8x1x1x1xf32>
// CHECK: %[[WEIGHTS:.*]] = nn.mul %{{.*}}, %[[COLUMN]]
// CHECK-NEXT: %[[CONV:.*]] = nn.conv %[[X]], %[[WEIGHTS]]
// CHECK: nn.add %[[CONV]], %{{.*}}
func.func @main(%x: tensor<1x6x6x3xf32>) -> tensor<1x4x4x8xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<8x3x3x3xf32>
  %s = nn.weight "s" file 0 at 864 : tensor<8xf32>
  %b = nn.weight "b" file 0 at 896 : tensor<8xf32>
  %m = nn.weight "m" file 0 at 928 : tensor<8xf32>
  %v = nn.weight "v" file 0 at 960 : tensor<8xf32>
  %0 = nn.conv %x, %w kernel 3x3 : tensor<1x6x6x3xf32> -> tensor<1x4x4x8xf32>
  %1 = nn.batch_norm %0, %s, %b, %m, %v epsilon 1.0e-05 : tensor<1x4x4x8xf32>, tensor<8xf32>
  return %1 : tensor<1x4x4x8xf32>
}

// -----

// Without one it is x s + t.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[S:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[FACTOR:.*]] = nn.mul %[[S]], %{{.*}}
// CHECK: %[[SCALED:.*]] = nn.mul %[[X]], %[[FACTOR]]
// CHECK: nn.add %[[SCALED]], %{{.*}}
func.func @main(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %m: tensor<8xf32>) -> tensor<4x8xf32> {
  %1 = nn.batch_norm %x, %s, %m, %m, %s epsilon 1.0e-05 : tensor<4x8xf32>, tensor<8xf32>
  return %1 : tensor<4x8xf32>
}
