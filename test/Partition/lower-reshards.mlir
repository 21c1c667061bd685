// RUN: kerf-opt %s --kerf-lower-reshards | FileCheck %s
// REQUIRES: kerf-opt

dist.mesh @mesh ["dp"=2, "tp"=4]

// CHECK-LABEL: @partial_to_sharded
func.func @partial_to_sharded(%x: tensor<8x6xf32>) -> tensor<2x6xf32> {
  // CHECK-NEXT: %[[R:.*]] = dist.reduce_scatter %{{.*}} sum ["tp"] dim 0 : tensor<8x6xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: return %[[R]]
  %0 = dist.reshard %x from <{}, {}, partial sum {"tp"}> to <{"tp"}, {}> of tensor<8x6xf32> : tensor<8x6xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// The reduction is the value's own.
// CHECK-LABEL: @max
func.func @max(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: dist.all_reduce %{{.*}} max ["tp"] purpose statistics
  %0 = dist.reshard %x from <{}, partial max {"tp"}> to <{}> of tensor<8xf32> purpose statistics : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Rows become columns.
// CHECK-LABEL: @all_to_all
func.func @all_to_all(%x: tensor<2x6xf32>) -> tensor<7x2xf32> {
  // CHECK-NEXT: dist.all_to_all %{{.*}} ["tp"] split 1 concat 0 : tensor<2x6xf32> -> tensor<7x2xf32>
  %0 = dist.reshard %x from <{"tp"}, {}> to <{}, {"tp"}> of tensor<7x6xf32> : tensor<2x6xf32> -> tensor<7x2xf32>
  return %0 : tensor<7x2xf32>
}

// Cutting is free and comes first.
// CHECK-LABEL: @slice_then_reduce
func.func @slice_then_reduce(%x: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[S:.*]] = dist.all_slice %{{.*}} ["dp"] dim 0 : tensor<8x6xf32> -> tensor<4x6xf32>
  // CHECK-NEXT: dist.all_reduce %[[S]] sum ["tp"] : tensor<4x6xf32> -> tensor<4x6xf32>
  %0 = dist.reshard %x from <{}, {}, partial sum {"tp"}> to <{"dp"}, {}> of tensor<8x6xf32> : tensor<8x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// 5 in 2 x 4 blocks of 1: the four of a dp half do not make its block of 3, so
// all is gathered and cut again.
// CHECK-LABEL: @blocks_do_not_nest
func.func @blocks_do_not_nest(%x: tensor<1xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: %[[G:.*]] = dist.all_gather %{{.*}} ["dp", "tp"] dim 0 : tensor<1xf32> -> tensor<5xf32>
  // CHECK-NEXT: dist.all_slice %[[G]] ["dp"] dim 0 : tensor<5xf32> -> tensor<3xf32>
  %0 = dist.reshard %x from <{"dp", "tp"}> to <{"dp"}> of tensor<5xf32> : tensor<1xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Nothing to do.
// CHECK-LABEL: @same
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>)
func.func @same(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = dist.reshard %x from <{"tp"}> to <{"tp"}> of tensor<8xf32> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
