// RUN: kerf-opt %s --kerf-store-attention-transposed | FileCheck %s
// REQUIRES: kerf-opt

// The other reader takes the result back from the transpose that is stored.
// CHECK-LABEL: func.func @main
// CHECK: %[[RESULT:[a-z0-9_]+]], %{{.*}} = nn.attention
// CHECK-NEXT: %[[STORED:.*]] = nn.transpose %[[RESULT]] perm [0, 2, 1, 3] {exec.stored}
// CHECK-NEXT: %[[BACK:.*]] = nn.transpose %[[STORED]] perm [0, 2, 1, 3]
// CHECK: nn.relu %[[BACK]]
func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x3x4x8xf32>) {
  %0:2 = nn.attention %q, %k, %k scale 1.0 : tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
  %1 = nn.relu %0#0 : tensor<2x4x3x8xf32>
  %2 = nn.transpose %0#0 perm [0, 2, 1, 3] : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  return %1, %2 : tensor<2x4x3x8xf32>, tensor<2x3x4x8xf32>
}
