// RUN: kerf-opt %s --split-input-file --kerf-dist-to-shard | FileCheck %s
// REQUIRES: kerf-opt

// A plan: a value's own sharding behind what makes it, that of a use in front of it. The matmul's parts of a sum are
// annotated as the sum, which shard-partition makes of them.
// CHECK: shard.grid @mesh(shape = 2x4) {dist.axes = ["dp", "tp"]}
// CHECK-LABEL: func.func @planned(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x6xf32>) -> tensor<4x6xf32> {
// CHECK-DAG: %[[BOTH:.*]] = shard.sharding @mesh split_axes = {{\[\[}}0], [1]]
// CHECK-DAG: %[[INNER:.*]] = shard.sharding @mesh split_axes = {{\[\[}}1]]
// CHECK-DAG: %[[ROWS:.*]] = shard.sharding @mesh split_axes = {{\[\[}}0]]
// CHECK: %[[X1:.*]] = shard.shard %[[X]] to %[[BOTH]] : tensor<4x8xf32>
// CHECK: %[[W1:.*]] = shard.shard %[[W]] to %[[INNER]] : tensor<8x6xf32>
// CHECK: %[[C:.*]] = arith.constant
// CHECK: %[[C1:.*]] = shard.shard %[[C]] to %[[ROWS]] : tensor<4x6xf32>
// CHECK: %[[X2:.*]] = shard.shard %[[X1]] to %[[BOTH]] annotate_for_users
// CHECK: %[[W2:.*]] = shard.shard %[[W1]] to %[[INNER]] annotate_for_users
// CHECK: %[[C2:.*]] = shard.shard %[[C1]] to %[[ROWS]] annotate_for_users
// CHECK: %[[R:.*]] = linalg.matmul ins(%[[X2]], %[[W2]] : {{.*}}) outs(%[[C2]]
// CHECK: %[[R1:.*]] = shard.shard %[[R]] to %[[ROWS]] : tensor<4x6xf32>
// CHECK: %[[R2:.*]] = shard.shard %[[R1]] to %[[ROWS]] annotate_for_users
// CHECK: return %[[R2]]
#both = #dist.sharding<{"dp"}, {"tp"}>
#inner = #dist.sharding<{"tp"}, {}>
#rows = #dist.sharding<{"dp"}, {}>
#parts = #dist.sharding<{"dp"}, {}, partial sum {"tp"}>
dist.mesh @mesh ["dp"=2, "tp"=4]
func.func @planned(%x: tensor<4x8xf32> {dist.sharding = #both}, %w: tensor<8x6xf32> {dist.sharding = #inner})
    -> (tensor<4x6xf32> {dist.sharding = #rows}) {
  %c = arith.constant {dist.plan = #dist.plan<results = [#rows]>} dense<0.0> : tensor<4x6xf32>
  %r = linalg.matmul {dist.plan = #dist.plan<operands = [#both, #inner, #rows], results = [#parts]>}
     ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}

// -----

// Axes of default names need no attribute; a reshard holds from there on; what is not annotated stays so.
// CHECK: shard.grid @grid(shape = 2){{$}}
// CHECK-LABEL: func.func @annotated(
// CHECK: %[[S:.*]] = shard.sharding @grid split_axes = {{\[\[}}], [0]]
// CHECK: %[[Y:.*]] = tosa.tanh %{{.*}}
// CHECK: %[[Z:.*]] = shard.shard %[[Y]] to %[[S]] annotate_for_users
// CHECK: tosa.abs %[[Z]]
dist.mesh @grid ["axis0"=2]
func.func @annotated(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tosa.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dist.reshard %0 to <{}, {"axis0"}> : tensor<4x8xf32>
  %2 = tosa.abs %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Collectives, on local types.
// CHECK-LABEL: func.func @collectives(
// CHECK: shard.all_reduce %{{.*}} on @mesh grid_axes = [0, 1] reduction = {{ *}}max : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK: shard.reduce_scatter %{{.*}} on @mesh grid_axes = [1] scatter_axis = 0 : tensor<4x8xf32> -> tensor<1x8xf32>
// CHECK: shard.all_gather %{{.*}} on @mesh grid_axes = [1] gather_axis = 0 : tensor<1x8xf32> -> tensor<4x8xf32>
// CHECK: shard.all_slice %{{.*}} on @mesh grid_axes = [0] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
// CHECK: shard.all_to_all %{{.*}} on @mesh grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<4x4xf32> -> tensor<2x8xf32>
// CHECK: shard.broadcast %{{.*}} on @mesh grid_axes = [0, 1] root = [1, 2] : (tensor<2x8xf32>) -> tensor<2x8xf32>
// CHECK: shard.shift %{{.*}} on @mesh grid_axes = [1] shift_axis = 1 offset = 3 rotate : tensor<2x8xf32> -> tensor<2x8xf32>
// CHECK: %[[AT:.*]]:2 = shard.process_multi_index on @mesh axes = [0, 1]
// CHECK: %[[MAJOR:.*]] = arith.muli %[[AT]]#0, %c4
// CHECK: %[[PLACE:.*]] = arith.addi %[[MAJOR]], %[[AT]]#1
// CHECK: %[[SCALED:.*]] = arith.muli %[[PLACE]], %c3
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[SCALED]] : index to i64
// CHECK: tensor.from_elements %[[NUMBER]] : tensor<i64>
dist.mesh @mesh ["dp"=2, "tp"=4]
func.func @collectives(%x: tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<i64>) {
  %0 = dist.all_reduce %x max ["dp", "tp"] : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = dist.reduce_scatter %0 sum ["tp"] dim 0 : tensor<4x8xf32> -> tensor<1x8xf32>
  %2 = dist.all_gather %1 ["tp"] dim 0 : tensor<1x8xf32> -> tensor<4x8xf32>
  %3 = dist.all_slice %2 ["dp"] dim 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  %4 = dist.all_to_all %3 ["dp"] split 0 concat 1 : tensor<4x4xf32> -> tensor<2x8xf32>
  %5 = dist.broadcast %4 ["dp", "tp"] root 6 : tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = dist.permute %5 ["tp"] pairs [0, 3, 1, 0, 2, 1, 3, 2] : tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = dist.shard_index ["dp", "tp"] scale 3 : tensor<i64>
  return %6, %7 : tensor<2x8xf32>, tensor<i64>
}

// -----

// A partitioned program of one stage is one function; an input that nothing reads is still an argument.
// CHECK: shard.grid
// CHECK: func.func @program(%{{.*}}: tensor<4xf32>, %[[X:.*]]: tensor<2x8xf32>) -> (tensor<2xf32>, tensor<2x8xf32>) {
// CHECK: %[[Y:.*]] = math.exp %[[X]] : tensor<2x8xf32>
// CHECK: %[[Z:.*]] = tensor.empty() : tensor<2xf32>
// CHECK: return %[[Z]], %[[Y]]
// CHECK-NOT: {{func.func|dist\.}}
#cut = #dist.sharding<{"tp"}, {}>
#row = #dist.sharding<{"tp"}>
#whole = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func private @program(tensor<4xf32> {dist.sharding = #whole}, tensor<4x8xf32> {dist.sharding = #cut})
    -> (tensor<4xf32> {dist.sharding = #row}, tensor<4x8xf32> {dist.sharding = #cut})
func.func @stage0_forward(%x: tensor<2x8xf32> {dist.from = #dist.from<input 1>, dist.global_type = tensor<4x8xf32>, dist.sharding = #cut})
    -> (tensor<2x8xf32> {dist.to = #dist.to<output [1]>, dist.global_type = tensor<4x8xf32>, dist.sharding = #cut},
        tensor<2xf32> {dist.to = #dist.to<output [0]>, dist.global_type = tensor<4xf32>, dist.sharding = #row})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %0 = math.exp %x : tensor<2x8xf32>
  %1 = tensor.empty() : tensor<2xf32>
  return %0, %1 : tensor<2x8xf32>, tensor<2xf32>
}
dist.schedule 0 {
  %0 = dist.input 1 micro_batch 0 : tensor<2x8xf32>
  %1, %2 = dist.run @stage0_forward(%0) micro_batch 0 : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>)
  dist.output %1 to 1 micro_batch 0 : tensor<2x8xf32>
  dist.output %2 to 0 micro_batch 0 : tensor<2xf32>
}
