// RUN: kerf-opt %s --kerf-simplify-collectives | FileCheck %s
// REQUIRES: kerf-opt

dist.mesh @mesh ["dp"=1, "tp"=2]

// A gather that two uses share is done once.
// CHECK-LABEL: @shared_gather
func.func @shared_gather(%x: tensor<2x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  // CHECK: %[[G:.*]] = dist.all_gather
  // CHECK-NOT: dist.all_gather
  // CHECK: return %[[G]], %[[G]]
  %0 = dist.all_gather %x ["tp"] dim 0 : tensor<2x3xf32> -> tensor<4x3xf32>
  %1 = dist.all_gather %x ["tp"] dim 0 : tensor<2x3xf32> -> tensor<4x3xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<4x3xf32>
}

// A slice of a gather is what was gathered; the gather is dead then.
// CHECK-LABEL: @slice_of_gather
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @slice_of_gather(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = dist.all_gather %x ["tp"] dim 0 : tensor<2x3xf32> -> tensor<4x3xf32>
  %1 = dist.all_slice %0 ["tp"] dim 0 : tensor<4x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// Groups of one rank, and permutes in place.
// CHECK-LABEL: @nothing_moves
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @nothing_moves(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK-NEXT: return %[[X]], %[[X]]
  %0 = dist.all_reduce %x sum ["dp"] : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = dist.permute %x ["tp"] pairs [0, 0, 1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// A rank that nobody sends to gets zeros: not in place.
// CHECK-LABEL: @partial_permute
func.func @partial_permute(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: dist.permute
  %1 = dist.permute %x ["tp"] pairs [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// Other dimension, other reduction: two values.
// CHECK-LABEL: @different
func.func @different(%x: tensor<2x2xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK-COUNT-2: dist.all_gather
  // CHECK-COUNT-2: dist.all_reduce
  %0 = dist.all_gather %x ["tp"] dim 0 : tensor<2x2xf32> -> tensor<4x2xf32>
  %1 = dist.all_gather %x ["tp"] dim 1 : tensor<2x2xf32> -> tensor<2x4xf32>
  %2 = dist.all_reduce %x sum ["tp"] : tensor<2x2xf32> -> tensor<2x2xf32>
  %3 = dist.all_reduce %x max ["tp"] : tensor<2x2xf32> -> tensor<2x2xf32>
  return %0, %1, %2, %3 : tensor<4x2xf32>, tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
