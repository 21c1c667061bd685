// RUN: kerf-opt %s --split-input-file --kerf-hold-parameters --verify-diagnostics | FileCheck %s
// RUN: kerf-opt %s --split-input-file '--kerf-autodiff=loss=mse(y,t)' --verify-diagnostics | FileCheck %s --check-prefix=STEP
// REQUIRES: kerf-opt

// Parameters have names and places of their own; what is no parameter stays an argument. A step trains them.
// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[X:.*]]: tensor<8x5xf32>
// CHECK-SAME: %[[K:.*]]: tensor<8x7xf32>
// CHECK-SAME: ) -> (
// CHECK: %[[W:.*]] = nn.weight "layer.w" file 1 at 0 : tensor<5x7xf32>
// CHECK: %[[B:.*]] = nn.weight "arg3" file 1 at 140 : tensor<8x7xf32>
// CHECK: nn.matmul %[[X]], %[[W]]
// STEP-LABEL: func.func @f(
// STEP-DAG: %[[W:.*]] = nn.weight "layer.w" file 1 at 0 {variable}
// STEP-DAG: %[[B:.*]] = nn.weight "arg3" file 1 at 140 {variable}
// STEP-DAG: dist.assign %[[W]]
// STEP-DAG: dist.assign %[[B]]
module attributes {kerf.files = ["other"]} {
  func.func @f(%x: tensor<8x5xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}, %w: tensor<5x7xf32> {kerf.name = "layer.w", kerf.parameter},
               %k: tensor<8x7xf32>, %b: tensor<8x7xf32> {kerf.parameter}) -> (tensor<8x7xf32> {kerf.name = "y"}) {
    %0 = nn.matmul %x, %w : (tensor<8x5xf32>, tensor<5x7xf32>) -> tensor<8x7xf32>
    %1 = nn.add %0, %b : tensor<8x7xf32>
    %2 = nn.add %1, %k : tensor<8x7xf32>
    return %2 : tensor<8x7xf32>
  }
}

// -----

// expected-error @below {{parameter 1 of @g is 'tensor<?xf32>', expected a tensor of static shape of numbers}}
func.func @g(%x: tensor<4xf32>, %w: tensor<?xf32> {kerf.parameter}) -> (tensor<4xf32> {kerf.name = "y"}) {
  return %x : tensor<4xf32>
}
