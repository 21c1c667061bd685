// RUN: kerf-opt %s --kerf-form-reduce-scatter | FileCheck %s
// REQUIRES: kerf-opt

dist.mesh @mesh ["dp"=2, "tp"=2]

// The kept part alone is reduced; the other axis on the smaller tensor.
// CHECK-LABEL: @slice_of_reduction
func.func @slice_of_reduction(%x: tensor<4xf32>) -> tensor<2xf32> {
  // CHECK: %[[S:.*]] = dist.reduce_scatter %{{.*}} sum ["tp"] dim 0 purpose statistics : tensor<4xf32> -> tensor<2xf32>
  // CHECK: %[[R:.*]] = dist.all_reduce %[[S]] sum ["dp"] purpose statistics : tensor<2xf32> -> tensor<2xf32>
  // CHECK: return %[[R]]
  %0 = dist.all_reduce %x sum ["dp", "tp"] purpose statistics : tensor<4xf32> -> tensor<4xf32>
  %1 = dist.all_slice %0 ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// The whole is used as well.
// CHECK-LABEL: @whole_is_used
func.func @whole_is_used(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK: dist.all_reduce
  // CHECK: dist.all_slice
  %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
  %1 = dist.all_slice %0 ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %0, %1 : tensor<4xf32>, tensor<2xf32>
}

// Cut by an axis that was not reduced.
// CHECK-LABEL: @other_axis
func.func @other_axis(%x: tensor<4xf32>) -> tensor<2xf32> {
  // CHECK: dist.all_reduce
  // CHECK: dist.all_slice
  %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
  %1 = dist.all_slice %0 ["dp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
