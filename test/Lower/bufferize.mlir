// Groups become kernels and launches, calls and collectives read and write buffers, schedules become stages.
// RUN: kerf-opt %s --split-input-file --kerf-bufferize | FileCheck %s
// REQUIRES: kerf-opt

// Parameters get numbers, what is returned is computed where the caller wants it,
// what is between lies in the arena. Without a schedule there is one stage, which
// runs the function once.
// CHECK: exec.parameter 0 "w" : memref<3x4xf32> from #exec.file_range<
// CHECK: exec.kernel @exp_0(%{{.*}}: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {index = 0
// CHECK-NEXT: nn.exp
// CHECK-NEXT: exec.yield
// CHECK: exec.func @stage0_forward(%[[X:[a-z0-9]+]]: memref<2x3xf32> {kerf.name = "x"},
// CHECK-SAME: %[[Y:[a-z0-9]+]]: memref<2x4xf32> {kerf.name = "y"}) attributes {num_inputs = 1
// CHECK-NEXT: %[[W:.*]] = exec.weight 0 : !exec.weight<3x4xf32>
// CHECK-NEXT: %[[P:.*]] = exec.arena : memref<2x4xf32>
// CHECK-NEXT: exec.matmul 0 "" m 2 n 4 k 3 lhs(%[[X]] : memref<2x3xf32>) rhs(%[[W]] : {{.*}}) dst(%[[P]] : memref<2x4xf32>){{$}}
// CHECK-NEXT: exec.launch @exp_0(%[[P]]) -> (%[[Y]]) :
// CHECK-NEXT: exec.return
// CHECK: exec.stage 0 {
// CHECK-NEXT: %[[SX:.*]] = exec.slot "x" : memref<2x3xf32>
// CHECK-NEXT: %[[SY:.*]] = exec.slot "y" : memref<2x4xf32>
// CHECK-NEXT: exec.input 0 to %[[SX]] micro_batch 0
// CHECK-NEXT: exec.run @stage0_forward(%[[SX]], %[[SY]]) micro_batch 0
// CHECK-NEXT: exec.output %[[SY]] to 0 micro_batch 0
func.func @main(%x: tensor<2x3xf32> {kerf.name = "x"}) -> (tensor<2x4xf32> {kerf.name = "y"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
  %e = exec.empty : tensor<2x4xf32>
  %0 = exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : tensor<2x3xf32>) rhs(%w : tensor<3x4xf32>) dst(%e : tensor<2x4xf32>) : tensor<2x4xf32>
  %f = exec.empty : tensor<2x4xf32>
  %1 = exec.group 0 "" (%a = %0 : tensor<2x4xf32>) into(%f : tensor<2x4xf32>) {
    %2 = nn.exp %a : tensor<2x4xf32>
    exec.yield %2 : tensor<2x4xf32>
  }
  return %1 : tensor<2x4xf32>
}

// -----

// A reshape and whole rows from a multiple of 64 bytes on are views of a buffer;
// what is returned through a reshape is written through a view.
// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<4x16xf32>, %[[Y:.*]]: memref<32xf32>)
// CHECK-DAG: %[[ROWS:.*]] = exec.view %[[X]] at 128 : memref<4x16xf32> to memref<2x16xf32>
// CHECK-DAG: %[[OUT:.*]] = exec.view %[[Y]] at 0 : memref<32xf32> to memref<2x16xf32>
// CHECK: exec.launch @relu_0(%[[ROWS]]) -> (%[[OUT]])
// CHECK-NOT: exec.copy
// CHECK: exec.return
func.func @main(%x: tensor<4x16xf32>) -> tensor<32xf32> {
  %0 = nn.slice %x from [2, 0] : (tensor<4x16xf32>) -> tensor<2x16xf32>
  %e = exec.empty : tensor<2x16xf32>
  %1 = exec.group 0 "" (%a = %0 : tensor<2x16xf32>) into(%e : tensor<2x16xf32>) {
    %3 = nn.relu %a : tensor<2x16xf32>
    exec.yield %3 : tensor<2x16xf32>
  }
  %2 = nn.reshape %1 : (tensor<2x16xf32>) -> tensor<32xf32>
  return %2 : tensor<32xf32>
}

// -----

// What is computed at load moves to a function that runs then, and what others
// read of it is a parameter.
// CHECK: exec.parameter 0 "derived_0" : memref<4xf32> from #exec.derived
// CHECK: exec.parameter 1 "b" : memref<4xf32> from #exec.file_range<{{.*}} init_only
// CHECK: exec.func @stage0_forward_init(%[[D:.*]]: memref<4xf32>) attributes {derived = array<i64: 0>
// CHECK-NEXT: %[[B:.*]] = exec.param 1
// CHECK-NEXT: exec.launch @exp_0(%[[B]]) -> (%[[D]])
// CHECK-NEXT: exec.return
// CHECK: exec.func @stage0_forward(
// CHECK-NEXT: %[[P:.*]] = exec.param 0
// CHECK-NEXT: exec.launch @add_1(%{{.*}}, %[[P]]) -> (%{{.*}})
// CHECK-NEXT: exec.return
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %b = nn.weight "b" file 0 at 0 : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" at_load (%a = %b : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %2 = nn.exp %a : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  %f = exec.empty : tensor<2x4xf32>
  %1 = exec.group 1 "" (%a = %x : tensor<2x4xf32>, %c = %0 : tensor<4xf32>) into(%f : tensor<2x4xf32>) {
    %2 = nn.add %a, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    exec.yield %2 : tensor<2x4xf32>
  }
  return %1 : tensor<2x4xf32>
}

// -----

// What a step changes is written where it lies.
// CHECK: exec.parameter 0 "w" : memref<4xf32> from {{.*}} is_mutable
// CHECK: exec.func @stage0_forward(%[[G:.*]]: memref<4xf32>)
// CHECK-NEXT: %[[W:.*]] = exec.param 0
// CHECK-NEXT: exec.launch @sub_0(%[[W]], %[[G]]) -> (%[[W]])
// CHECK-NEXT: exec.return
func.func @main(%g: tensor<4xf32>) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %w : tensor<4xf32>, %b = %g : tensor<4xf32>) into(%w : tensor<4xf32>) {
    %1 = nn.sub %a, %b : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  dist.assign %w, %0 : tensor<4xf32>
  return
}

// -----

// Two stages: a collective with the bytes that the ranks of its group send, slots and instructions.
// CHECK: exec.channel 0 {{.*}}from 0 to 1 {{.*}} : memref<4xf32>
// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<4xf32>, %[[S:.*]]: memref<4xf32>)
// CHECK-NEXT: exec.collective 0 all_reduce sum ["tp"] %[[X]] -> %[[S]] bytes 32
// CHECK-NEXT: exec.return
// CHECK: exec.stage 0 {
// CHECK: exec.input 0 to %[[SX:.*]] micro_batch 0
// CHECK-NEXT: exec.run @stage0_forward(%[[SX]], %[[SH:.*]]) micro_batch 0
// CHECK-NEXT: exec.send %[[SH]] channel 0 micro_batch 0
// CHECK: exec.stage 1 {
// CHECK: exec.recv %[[SR:.*]] channel 0 micro_batch 0
// CHECK-NEXT: exec.run @stage1_forward(%[[SR]], %[[SY:.*]]) micro_batch 0
// CHECK-NEXT: exec.output %[[SY]] to 0 micro_batch 0
#whole = #dist.sharding<{}>
#part = #dist.sharding<{}, partial sum {"tp"}>
dist.mesh @mesh ["pp"=2, "tp"=2]
dist.channel 0 from 0 to 1 : tensor<4xf32>
func.func private @main(tensor<4xf32> {kerf.name = "x", dist.sharding = #part})
    -> (tensor<4xf32> {kerf.name = "y", dist.sharding = #whole})
func.func @stage0_forward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #part, dist.global_type = tensor<4xf32>})
    -> (tensor<4xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #whole, dist.global_type = tensor<4xf32>})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @stage1_forward(%h: tensor<4xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #whole, dist.global_type = tensor<4xf32>})
    -> (tensor<4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole, dist.global_type = tensor<4xf32>})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %h : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %1 = nn.exp %a : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
  %1 = dist.run @stage0_forward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.send %1 channel 0 micro_batch 0 : tensor<4xf32>
}
dist.schedule 1 {
  %0 = dist.recv channel 0 micro_batch 0 : tensor<4xf32>
  %1 = dist.run @stage1_forward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.output %1 to 0 micro_batch 0 : tensor<4xf32>
}

// -----

// Steps of stage 0 read the weight; stage 1 reads it at load alone, and keeps
// what it derived.
// CHECK: exec.parameter 0 "{{.*}}derived_0" : {{.*}} stages [1]
// CHECK: exec.parameter 1 "w" : memref<4xf32> {{.*}} stages [0]{{$}}
// CHECK: exec.parameter 2 "w" : memref<4xf32> {{.*}} stages [1] init_only
// CHECK: exec.func @stage1_forward_init(
// CHECK-NEXT: %{{.*}} = exec.param 2
// CHECK: exec.func @stage0_forward(
// CHECK-NEXT: %{{.*}} = exec.param 1
#whole = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2]
dist.channel 0 from 0 to 1 : tensor<4xf32>
func.func private @main(tensor<4xf32> {kerf.name = "x", dist.sharding = #whole})
    -> (tensor<4xf32> {kerf.name = "y", dist.sharding = #whole})
func.func @stage1_forward(%h: tensor<4xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #whole})
    -> (tensor<4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  %w = nn.weight "w" file 0 at 0 : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" at_load (%a = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %2 = nn.exp %a : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  %f = exec.empty : tensor<4xf32>
  %1 = exec.group 1 "" (%a = %h : tensor<4xf32>, %b = %0 : tensor<4xf32>) into(%f : tensor<4xf32>) {
    %2 = nn.add %a, %b : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}
func.func @stage0_forward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
    -> (tensor<4xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %w = nn.weight "w" file 0 at 0 : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<4xf32>, %b = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %1 = nn.add %a, %b : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
  %1 = dist.run @stage0_forward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.send %1 channel 0 micro_batch 0 : tensor<4xf32>
}
dist.schedule 1 {
  %0 = dist.recv channel 0 micro_batch 0 : tensor<4xf32>
  %1 = dist.run @stage1_forward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.output %1 to 0 micro_batch 0 : tensor<4xf32>
}

// -----

// Stage 0 packs the weight for the library, and reads it at load as well: it
// is not for the library only. Stage 1 reads it at load alone.
// CHECK: exec.parameter [[W:[0-9]+]] "w" : memref<4x4xf32> {{.*}} stages [0]{{$}}
// CHECK: exec.parameter {{[0-9]+}} "w" : memref<4x4xf32> {{.*}} stages [1] init_only
#whole = #dist.sharding<{}, {}>
dist.mesh @mesh ["pp"=2]
dist.channel 0 from 0 to 1 : tensor<4x4xf32>
func.func private @main(tensor<4x4xf32> {kerf.name = "x", dist.sharding = #whole})
    -> (tensor<4x4xf32> {kerf.name = "y", dist.sharding = #whole})
func.func @stage0_forward(%x: tensor<4x4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
    -> (tensor<4x4xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %w = nn.weight "w" file 0 at 0 : tensor<4x4xf32>
  %e = exec.empty : tensor<4x4xf32>
  %0 = exec.group 0 "" at_load (%a = %w : tensor<4x4xf32>) into(%e : tensor<4x4xf32>) {
    %3 = nn.exp %a : tensor<4x4xf32>
    exec.yield %3 : tensor<4x4xf32>
  }
  %f = exec.empty : tensor<4x4xf32>
  %1 = exec.matmul 0 "" m 4 n 4 k 4 lhs(%x : tensor<4x4xf32>) rhs(%w : tensor<4x4xf32>) dst(%f : tensor<4x4xf32>) : tensor<4x4xf32>
  %g = exec.empty : tensor<4x4xf32>
  %2 = exec.group 1 "" (%a = %1 : tensor<4x4xf32>, %b = %0 : tensor<4x4xf32>) into(%g : tensor<4x4xf32>) {
    %3 = nn.add %a, %b : tensor<4x4xf32>
    exec.yield %3 : tensor<4x4xf32>
  }
  return %2 : tensor<4x4xf32>
}
func.func @stage1_forward(%h: tensor<4x4xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #whole})
    -> (tensor<4x4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  %w = nn.weight "w" file 0 at 0 : tensor<4x4xf32>
  %e = exec.empty : tensor<4x4xf32>
  %0 = exec.group 2 "" at_load (%a = %w : tensor<4x4xf32>) into(%e : tensor<4x4xf32>) {
    %2 = nn.exp %a : tensor<4x4xf32>
    exec.yield %2 : tensor<4x4xf32>
  }
  %f = exec.empty : tensor<4x4xf32>
  %1 = exec.group 3 "" (%a = %h : tensor<4x4xf32>, %b = %0 : tensor<4x4xf32>) into(%f : tensor<4x4xf32>) {
    %2 = nn.add %a, %b : tensor<4x4xf32>
    exec.yield %2 : tensor<4x4xf32>
  }
  return %1 : tensor<4x4xf32>
}
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<4x4xf32>
  %1 = dist.run @stage0_forward(%0) micro_batch 0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dist.send %1 channel 0 micro_batch 0 : tensor<4x4xf32>
}
dist.schedule 1 {
  %0 = dist.recv channel 0 micro_batch 0 : tensor<4x4xf32>
  %1 = dist.run @stage1_forward(%0) micro_batch 0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dist.output %1 to 0 micro_batch 0 : tensor<4x4xf32>
}

// -----

// A part that is not in its place is copied there, also where no other buffer could
// begin; one that is costs nothing. The join is read like any value.
// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<1x6xf32>, %[[Y:.*]]: memref<2x6xf32>)
// CHECK: %[[WHOLE:.*]] = exec.arena : memref<2x6xf32>
// CHECK: %[[FIRST:.*]] = exec.view %[[WHOLE]] at 0 : memref<2x6xf32> to memref<1x6xf32>
// CHECK: exec.launch @exp_0(%[[X]]) -> (%[[FIRST]])
// CHECK: %[[SECOND:.*]] = exec.view %[[WHOLE]] at 24 : memref<2x6xf32> to memref<1x6xf32>
// CHECK-NEXT: exec.copy %[[X]] -> %[[SECOND]]
// CHECK-NEXT: exec.launch @neg_1(%[[WHOLE]]) -> (%[[Y]])
func.func @main(%x: tensor<1x6xf32>) -> tensor<2x6xf32> {
  %e = exec.empty : tensor<2x6xf32>
  %p = nn.slice %e from [0, 0] : (tensor<2x6xf32>) -> tensor<1x6xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<1x6xf32>) into(%p : tensor<1x6xf32>) {
    %3 = nn.exp %a : tensor<1x6xf32>
    exec.yield %3 : tensor<1x6xf32>
  }
  %1 = exec.join %0, %x into(%e : tensor<2x6xf32>) : tensor<1x6xf32>, tensor<1x6xf32>
  %f = exec.empty : tensor<2x6xf32>
  %2 = exec.group 1 "" (%a = %1 : tensor<2x6xf32>) into(%f : tensor<2x6xf32>) {
    %3 = nn.neg %a : tensor<2x6xf32>
    exec.yield %3 : tensor<2x6xf32>
  }
  return %2 : tensor<2x6xf32>
}

// -----

// Parts of a join that is returned are computed in the caller's buffer.
// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<1x16xf32>, %[[Y:.*]]: memref<2x16xf32>)
// CHECK: %[[FIRST:.*]] = exec.view %[[Y]] at 0
// CHECK: exec.launch @exp_0(%[[X]]) -> (%[[FIRST]])
// CHECK: %[[SECOND:.*]] = exec.view %[[Y]] at 64
// CHECK: exec.launch @neg_1(%[[FIRST]]) -> (%[[SECOND]])
// CHECK-NEXT: exec.return
func.func @main(%x: tensor<1x16xf32>) -> tensor<2x16xf32> {
  %e = exec.empty : tensor<2x16xf32>
  %p = nn.slice %e from [0, 0] : (tensor<2x16xf32>) -> tensor<1x16xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<1x16xf32>) into(%p : tensor<1x16xf32>) {
    %3 = nn.exp %a : tensor<1x16xf32>
    exec.yield %3 : tensor<1x16xf32>
  }
  %q = nn.slice %e from [1, 0] : (tensor<2x16xf32>) -> tensor<1x16xf32>
  %1 = exec.group 1 "" (%a = %0 : tensor<1x16xf32>) into(%q : tensor<1x16xf32>) {
    %3 = nn.neg %a : tensor<1x16xf32>
    exec.yield %3 : tensor<1x16xf32>
  }
  %2 = exec.join %0, %1 into(%e : tensor<2x16xf32>) : tensor<1x16xf32>, tensor<1x16xf32>
  return %2 : tensor<2x16xf32>
}
