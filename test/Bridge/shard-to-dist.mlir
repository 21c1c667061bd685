// RUN: kerf-opt %s --split-input-file --kerf-shard-to-dist | FileCheck %s
// REQUIRES: kerf-opt

// Every tensor is annotated: a plan, as kerf-partition takes it. What the product adds up is cut, so its result is a
// part of a sum, which is added up in front of its use.
// CHECK: dist.mesh @grid ["axis0"=2, "axis1"=4]
// CHECK-LABEL: func.func @full(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32> {dist.sharding = #s_x_axis0_axis1}, %[[W:.*]]: tensor<2x8x6xf32> {dist.sharding = #s_x_axis1_x}
// CHECK-SAME: -> (tensor<2x4x6xf32> {dist.sharding = #s_x_axis0_x})
// CHECK: tosa.const{{.*}}dist.plan = #p_to_x
// CHECK: %[[R:.*]] = tosa.matmul %[[X]], %[[W]], %{{.*}} {dist.plan = #p_x_axis0_axis1--x_axis1_x--x--x_to_x_axis0_x_sum-axis1}
// CHECK: return %[[R]]
shard.grid @grid(shape = 2x4)
func.func @full(%x: tensor<2x4x8xf32>, %w: tensor<2x8x6xf32>) -> tensor<2x4x6xf32> {
  %sx = shard.sharding @grid split_axes = [[], [0], [1]] : !shard.sharding
  %sw = shard.sharding @grid split_axes = [[], [1]] : !shard.sharding
  %sr = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %whole = shard.sharding @grid split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %sx : tensor<2x4x8xf32>
  %w1 = shard.shard %w to %sw : tensor<2x8x6xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %z1 = shard.shard %z to %whole : tensor<1xf32>
  %x2 = shard.shard %x1 to %sx annotate_for_users : tensor<2x4x8xf32>
  %w2 = shard.shard %w1 to %sw annotate_for_users : tensor<2x8x6xf32>
  %z2 = shard.shard %z1 to %whole annotate_for_users : tensor<1xf32>
  %r = tosa.matmul %x2, %w2, %z2, %z2 : (tensor<2x4x8xf32>, tensor<2x8x6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x4x6xf32>
  %r1 = shard.shard %r to %sr : tensor<2x4x6xf32>
  return %r1 : tensor<2x4x6xf32>
}

// -----

// The sum is scattered along the axis over which it is one: that is a reshard behind the op.
// CHECK-LABEL: func.func @scattered(
// CHECK: %[[R:.*]] = linalg.matmul {dist.plan = #p_x_tp--tp_x--x2_to_x2_sum-tp}
// CHECK: %[[S:.*]] = dist.reshard %[[R]] to #s_tp_x {dist.plan = #p_x2_sum-tp_to_tp_x}
// CHECK: return %[[S]]
shard.grid @grid(shape = 2) {dist.axes = ["tp"]}
func.func @scattered(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %rows = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %whole = shard.sharding @grid split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %columns : tensor<4x8xf32>
  %w1 = shard.shard %w to %rows : tensor<8x6xf32>
  %c1 = shard.shard %c to %whole : tensor<4x6xf32>
  %r = linalg.matmul ins(%x1, %w1 : tensor<4x8xf32>, tensor<8x6xf32>) outs(%c1 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %r1 = shard.shard %r to %rows : tensor<4x6xf32>
  return %r1 : tensor<4x6xf32>
}

// -----

// Annotations that no single rule allows: rows in, columns out. Each is where its value is brought to.
// CHECK-LABEL: func.func @against(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"axis0"}, {}>})
// CHECK: %[[Y:.*]] = tosa.tanh %[[X]] : (
// CHECK: %[[Z:.*]] = dist.reshard %[[Y]] to #s_x_axis0 : tensor<4x6xf32>
// CHECK: return %[[Z]]
shard.grid @grid(shape = 2)
func.func @against(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %rows = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %x1 = shard.shard %x to %rows : tensor<4x6xf32>
  %y = tosa.tanh %x1 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y1 = shard.shard %y to %columns : tensor<4x6xf32>
  return %y1 : tensor<4x6xf32>
}

// -----

// An annotation for some users is where the value is brought in front of them; the argument is open.
// CHECK-LABEL: func.func @users(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %{{.*}}: tensor<?x6xf32>) ->
// CHECK: %[[Y:.*]] = dist.reshard %[[X]] to #s_axis0_x
// CHECK: tosa.tanh %[[Y]]
// CHECK: tosa.abs %[[X]]
shard.grid @grid(shape = 2)
func.func @users(%x: tensor<4x6xf32>, %d: tensor<?x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %rows = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %whole = shard.sharding @grid split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %rows annotate_for_users : tensor<4x6xf32>
  %d1 = shard.shard %d to %whole : tensor<?x6xf32>
  %y = tosa.tanh %x1 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %z = tosa.abs %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// Parts of given sizes: 5 = 3 + 2 are dist's own, 768 in parts of 128 a block.
// CHECK-LABEL: func.func @offsets(
// CHECK-SAME: tensor<5x4xf32> {dist.sharding = #dist.sharding<{"axis0"}, {"axis1"}>}
// CHECK-SAME: tensor<768xf32> {dist.sharding = #dist.sharding<{"axis0"}:128>}
shard.grid @grid(shape = 8x2)
func.func @offsets(%x: tensor<5x4xf32>, %y: tensor<768xf32>) {
  %s = shard.sharding @grid split_axes = [[0], [1]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 5, 5, 5, 0, 2, 4] : !shard.sharding
  %t = shard.sharding @grid split_axes = [[0]] sharded_dims_offsets = [0, 128, 256, 384, 512, 640, 768, 768, 768] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<5x4xf32>
  %y1 = shard.shard %y to %t : tensor<768xf32>
  return
}

// -----

// CHECK-LABEL: func.func @collectives(
// CHECK: dist.all_reduce %{{.*}} max ["axis0", "axis1"] : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK: dist.reduce_scatter %{{.*}} sum ["axis1"] dim 0
// CHECK: dist.all_gather %{{.*}} ["axis1"] dim 0
// CHECK: dist.all_slice %{{.*}} ["axis0"] dim 1
// CHECK: dist.all_to_all %{{.*}} ["axis0"] split 0 concat 1
// CHECK: dist.broadcast %{{.*}} ["axis0", "axis1"] root 6
// CHECK: dist.permute %{{.*}} ["axis1"] pairs [0, 3, 1, 0, 2, 1, 3, 2]
// CHECK: dist.permute %{{.*}} ["axis1"] pairs [0, 1, 1, 2, 2, 3]
// CHECK: %[[AT:.*]] = dist.shard_index ["axis1"] scale 1 : tensor<i64>
// CHECK: %[[NUMBER:.*]] = tensor.extract %[[AT]][]
// CHECK: arith.index_cast %[[NUMBER]] : i64 to index
// CHECK: dist.shard_index ["axis0", "axis1"] scale 1 : tensor<i64>
shard.grid @grid(shape = 2x4)
func.func @collectives(%x: tensor<4x8xf32>) -> (tensor<2x8xf32>, index, index) {
  %0 = shard.all_reduce %x on @grid grid_axes = [0, 1] reduction = max : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = shard.reduce_scatter %0 on @grid grid_axes = [1] scatter_axis = 0 : tensor<4x8xf32> -> tensor<1x8xf32>
  %2 = shard.all_gather %1 on @grid grid_axes = [1] gather_axis = 0 : tensor<1x8xf32> -> tensor<4x8xf32>
  %3 = shard.all_slice %2 on @grid grid_axes = [0] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  %4 = shard.all_to_all %3 on @grid grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<4x4xf32> -> tensor<2x8xf32>
  %5 = shard.broadcast %4 on @grid grid_axes = [0, 1] root = [1, 2] : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = shard.shift %5 on @grid grid_axes = [1] shift_axis = 1 offset = 3 rotate : tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = shard.shift %6 on @grid grid_axes = [1] shift_axis = 1 offset = 1 : tensor<2x8xf32> -> tensor<2x8xf32>
  %8:2 = shard.process_multi_index on @grid axes = [0, 1] : index, index
  %9 = shard.process_linear_index on @grid : index
  return %7, %8#1, %9 : tensor<2x8xf32>, index, index
}
