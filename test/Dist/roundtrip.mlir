// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s --mlir-print-op-generic | kerf-opt | FileCheck %s
// REQUIRES: kerf-opt

// What is printed is read back, in the pretty and in the generic form.

// CHECK: dist.mesh @mesh ["pp"=2, "dp"=2, "tp"=4] time ["mb"=2]
dist.mesh @mesh ["pp"=2, "dp"=2, "tp"=4] time ["mb"=2]

// CHECK-LABEL: @shardings
// CHECK-SAME: dist.sharding = #dist.sharding<{"mb", "dp"}, {"tp":(1)2}>
// CHECK-SAME: dist.sharding = #s_x2
func.func @shardings(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<{"mb", "dp"}, {"tp":(1)2}>})
    -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // CHECK: dist.plan = #p_x2_sum-dp-tp-2-2_to
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {}, partial sum {"dp", "tp":(2)2}>],
                                        results = [#dist.sharding<{}, {}, partial sum {"dp", "tp":(2)2}>]>}
     : tensor<8x6xf32>
  // CHECK: dist.plan = #p_tp_x_to_max-tp
  %1 = nn.reduce max %0 dims [0, 1] {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}, {}>], results = [#dist.sharding<partial max {"tp"}>]>}
     : (tensor<8x6xf32>) -> tensor<f32>
  return %0 : tensor<8x6xf32>
}

// Blocks of their own size: 3 heads of 8 columns on 4 ranks.
// CHECK-LABEL: @blocks
// CHECK-SAME: dist.sharding = #dist.sharding<{}, {"tp"}:8>
func.func @blocks(%x: tensor<8x24xf32> {dist.sharding = #dist.sharding<{}, {"tp"}:8>}) {
  // CHECK: dist.plan = #p_x_tp-by8_sum-dp_to
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {"tp"}:8, partial sum {"dp"}>],
                                        results = [#dist.sharding<{}, {"tp"}:8, partial sum {"dp"}>]>}
     : tensor<8x24xf32>
  // CHECK: dist.reshard %{{.*}} to #s_dp-tp_x : tensor<8x24xf32>
  %1 = dist.reshard %0 to <{"dp", "tp"}, {}> : tensor<8x24xf32>
  return
}

// Chunk 0 of a stage is not named.
// CHECK-LABEL: @chunks
// CHECK-SAME: dist.part = #dist.part<stage = 1, chunk = 2, phase = forward>
func.func @chunks(%x: tensor<8x24xf32>) attributes {dist.part = #dist.part<stage = 1, chunk = 2, phase = forward>} {
  // CHECK: dist.plan = #p1c2
  %0 = nn.neg %x {dist.plan = #dist.plan<stage = 1, chunk = 2>} : tensor<8x24xf32>
  // CHECK: dist.plan = #p1}
  %1 = nn.neg %0 {dist.plan = #dist.plan<stage = 1, chunk = 0>} : tensor<8x24xf32>
  return
}

// CHECK-LABEL: @collectives
func.func @collectives(%x: tensor<4x8xf32>) {
  // CHECK: dist.all_reduce %{{.*}} sum ["tp"] : tensor<4x8xf32> -> tensor<4x8xf32>
  %0 = dist.all_reduce %x sum ["tp"] : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: dist.all_reduce %{{.*}} max ["dp", "tp":(1)2] purpose statistics phase update {note = 1 : i64} : tensor<4x8xf32> -> !dist.pending<tensor<4x8xf32>>
  %1 = dist.all_reduce %x max ["dp", "tp":(1)2] purpose statistics phase update {note = 1 : i64} : tensor<4x8xf32> -> !dist.pending<tensor<4x8xf32>>
  // CHECK: dist.wait %{{.*}} : !dist.pending<tensor<4x8xf32>>
  %2 = dist.wait %1 : !dist.pending<tensor<4x8xf32>>
  // CHECK: dist.reduce_scatter %{{.*}} sum ["tp"] dim 1 purpose gradient : tensor<4x8xf32> -> tensor<4x2xf32>
  %3 = dist.reduce_scatter %x sum ["tp"] dim 1 purpose gradient : tensor<4x8xf32> -> tensor<4x2xf32>
  // CHECK: dist.all_gather %{{.*}} ["tp"] dim 0 : tensor<4x8xf32> -> tensor<15x8xf32>
  %4 = dist.all_gather %x ["tp"] dim 0 : tensor<4x8xf32> -> tensor<15x8xf32>
  // CHECK: dist.all_slice %{{.*}} ["mb", "dp"] dim 1 : tensor<4x8xf32> -> tensor<4x2xf32>
  %5 = dist.all_slice %x ["mb", "dp"] dim 1 : tensor<4x8xf32> -> tensor<4x2xf32>
  // CHECK: dist.all_to_all %{{.*}} ["tp"] split 1 concat 0 : tensor<4x8xf32> -> tensor<16x2xf32>
  %6 = dist.all_to_all %x ["tp"] split 1 concat 0 : tensor<4x8xf32> -> tensor<16x2xf32>
  // CHECK: dist.broadcast %{{.*}} ["dp"] root 1 purpose control : tensor<4x8xf32> -> tensor<4x8xf32>
  %7 = dist.broadcast %x ["dp"] root 1 purpose control : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: dist.permute %{{.*}} ["dp"] pairs [0, 1, 1, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  %8 = dist.permute %x ["dp"] pairs [0, 1, 1, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: dist.mask %{{.*}} dim 1 size 30 over ["tp"] fill 0xFF800000 : f32 : tensor<4x8xf32>
  %9 = dist.mask %x dim 1 size 30 over ["tp"] fill 0xFF800000 : f32 : tensor<4x8xf32>
  // CHECK: dist.shard_index ["dp", "tp"] scale 3 : tensor<i64>
  %10 = dist.shard_index ["dp", "tp"] scale 3 : tensor<i64>
  // CHECK: %[[P:.*]] = dist.pack %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<4x2xf32> -> tensor<40xf32>
  %12 = dist.pack %x, %3 : tensor<4x8xf32>, tensor<4x2xf32> -> tensor<40xf32>
  // CHECK: dist.unpack %[[P]] : tensor<40xf32> -> tensor<4x8xf32>, tensor<4x2xf32>
  %13, %14 = dist.unpack %12 : tensor<40xf32> -> tensor<4x8xf32>, tensor<4x2xf32>
  // CHECK: dist.shard_index [] scale 1 : tensor<i64>
  %11 = dist.shard_index [] scale 1 : tensor<i64>
  return
}

// CHECK-LABEL: @reshards
func.func @reshards(%x: tensor<6x4xf32>) -> tensor<2x4xf32> {
  // CHECK: dist.reshard %{{.*}} to #s_tp_x : tensor<6x4xf32>
  %0 = dist.reshard %x to <{"tp"}, {}> : tensor<6x4xf32>
  // CHECK: dist.reshard %{{.*}} from #s_x2_sum-tp to #s_tp_x of tensor<6x4xf32> purpose parameter : tensor<6x4xf32> -> tensor<2x4xf32>
  %1 = dist.reshard %x from <{}, {}, partial sum {"tp"}> to <{"tp"}, {}> of tensor<6x4xf32> purpose parameter : tensor<6x4xf32> -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// CHECK: dist.channel 0 from 0 to 1 : tensor<2x4xf32>
dist.channel 0 from 0 to 1 : tensor<2x4xf32>
func.func @stage0(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %0 = nn.slice %x from [0, 0] : (tensor<2x8xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
// CHECK: dist.schedule 0 {
dist.schedule 0 {
  // CHECK-NEXT: %[[X:.*]] = dist.input 0 micro_batch 1 : tensor<2x8xf32>
  %x = dist.input 0 micro_batch 1 : tensor<2x8xf32>
  // CHECK-NEXT: %[[H:.*]] = dist.run @stage0(%[[X]]) micro_batch 1 : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %h = dist.run @stage0(%x) micro_batch 1 : (tensor<2x8xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: dist.send %[[H]] channel 0 micro_batch 1 purpose gradient : tensor<2x4xf32>
  dist.send %h channel 0 micro_batch 1 purpose gradient : tensor<2x4xf32>
}
// CHECK: dist.schedule 1 {
dist.schedule 1 {
  // CHECK-NEXT: %[[R:.*]] = dist.recv channel 0 micro_batch 1 : tensor<2x4xf32>
  %r = dist.recv channel 0 micro_batch 1 : tensor<2x4xf32>
  // CHECK-NEXT: dist.output %[[R]] to 0 micro_batch 1 : tensor<2x4xf32>
  dist.output %r to 0 micro_batch 1 : tensor<2x4xf32>
}
