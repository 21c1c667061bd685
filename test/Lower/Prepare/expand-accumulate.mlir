// RUN: kerf-opt %s --kerf-expand-accumulate | FileCheck %s
// REQUIRES: kerf-opt

// The first micro-batch has no sum so far: it is the sum.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[G:.*]]: tensor<4xf32>, %[[SUM:.*]]: tensor<4xf32>
// CHECK: %[[NEXT:.*]] = nn.add %[[SUM]], %[[G]]
// CHECK: return %[[G]], %[[NEXT]]
func.func @main(%g: tensor<4xf32>, %sum: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dist.accumulate %g : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dist.accumulate %g into %sum : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
