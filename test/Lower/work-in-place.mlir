// RUN: kerf-opt %s --kerf-work-in-place --split-input-file | FileCheck %s
// REQUIRES: kerf-opt

// The kernel writes over what nobody reads afterwards; not over what is read again.
// CHECK-LABEL: exec.func @stage0_forward
// CHECK: %[[A:.*]] = exec.arena
// CHECK: exec.launch @relu_0(%[[A]]) -> (%[[A]])
// CHECK-NOT: exec.arena
// CHECK: %[[B:.*]] = exec.arena
// CHECK: exec.launch @relu_0(%[[A]]) -> (%[[B]])
// CHECK: exec.copy %[[A]]
exec.kernel @relu_0(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {index = 0 : i64, node = "relu"} {
  %0 = nn.relu %x : tensor<2x3xf32>
  exec.yield %0 : tensor<2x3xf32>
}
exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>, %z: memref<2x3xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %0 = exec.arena : memref<2x3xf32>
  exec.copy %x -> %0 : memref<2x3xf32> -> memref<2x3xf32>
  %1 = exec.arena : memref<2x3xf32>
  exec.launch @relu_0(%0) -> (%1) : (memref<2x3xf32>) -> (memref<2x3xf32>)
  %2 = exec.arena : memref<2x3xf32>
  exec.launch @relu_0(%1) -> (%2) : (memref<2x3xf32>) -> (memref<2x3xf32>)
  exec.copy %1 -> %y : memref<2x3xf32> -> memref<2x3xf32>
  exec.copy %2 -> %z : memref<2x3xf32> -> memref<2x3xf32>
  exec.return
}

// -----

// A sum over ranks is made where its parts are; what is gathered is larger than them.
// CHECK-LABEL: exec.func @stage0_forward
// CHECK: %[[A:.*]] = exec.arena : memref<4xf32>
// CHECK: exec.collective 0 all_reduce sum ["tp"] %[[A]] -> %[[A]]
// CHECK: %[[B:.*]] = exec.arena : memref<8xf32>
// CHECK: exec.collective 1 all_gather {{.*}} %[[A]] -> %[[B]]
module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
  exec.func @stage0_forward(%x: memref<4xf32>, %y: memref<8xf32>)
      attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
    %0 = exec.arena : memref<4xf32>
    exec.copy %x -> %0 : memref<4xf32> -> memref<4xf32>
    %1 = exec.arena : memref<4xf32>
    exec.collective 0 all_reduce sum ["tp"] %0 -> %1 bytes 16 purpose activation phase forward node ""
        : memref<4xf32> -> memref<4xf32>
    %2 = exec.arena : memref<8xf32>
    exec.collective 1 all_gather ["tp"] dim 0 %1 -> %2 bytes 16 purpose activation phase forward node ""
        : memref<4xf32> -> memref<8xf32>
    exec.copy %2 -> %y : memref<8xf32> -> memref<8xf32>
    exec.return
  }
}

// -----

// A kernel writes over what it alone still reads, but not over what a later one
// reads, nor where it reads other elements than it writes.
exec.kernel @exp(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {index = 0 : i64, node = ""} {
  %0 = nn.exp %x : tensor<4x4xf32>
  exec.yield %0 : tensor<4x4xf32>
}
exec.kernel @transpose(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {index = 1 : i64, node = ""} {
  %0 = nn.transpose %x perm [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  exec.yield %0 : tensor<4x4xf32>
}
// CHECK-LABEL: exec.func @in_place(
// CHECK-NEXT: %[[A:.*]] = exec.arena
// CHECK-NEXT: %[[B:.*]] = exec.arena
// CHECK-NEXT: %[[C:.*]] = exec.arena
// CHECK-NEXT: exec.launch @exp(%arg0) -> (%[[A]]) :
// CHECK-NEXT: exec.launch @exp(%[[A]]) -> (%[[A]]) :
// CHECK-NEXT: exec.launch @transpose(%[[A]]) -> (%[[B]]) :
// CHECK-NEXT: exec.launch @exp(%[[B]]) -> (%[[C]]) :
// CHECK: exec.copy %[[B]] -> %arg1
// CHECK: exec.copy %[[C]] -> %arg2
exec.func @in_place(%x: memref<4x4xf32>, %y: memref<4x4xf32>, %z: memref<4x4xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %a = exec.arena : memref<4x4xf32>
  %b = exec.arena : memref<4x4xf32>
  %c = exec.arena : memref<4x4xf32>
  %d = exec.arena : memref<4x4xf32>
  exec.launch @exp(%x) -> (%a) : (memref<4x4xf32>) -> memref<4x4xf32>
  exec.launch @exp(%a) -> (%b) : (memref<4x4xf32>) -> memref<4x4xf32>
  exec.launch @transpose(%b) -> (%c) : (memref<4x4xf32>) -> memref<4x4xf32>
  exec.launch @exp(%c) -> (%d) : (memref<4x4xf32>) -> memref<4x4xf32>
  exec.copy %c -> %y : memref<4x4xf32> -> memref<4x4xf32>
  exec.copy %d -> %z : memref<4x4xf32> -> memref<4x4xf32>
  exec.return
}

// -----

// What a stage's function is given in a slot is overwritten where nothing behind it reads the slot (a sum over
// micro-batches, in front of the update), but not an input of the caller, nor what is read once more or sent.
// CHECK-LABEL: exec.func @stage0_update(
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: memref<4xf32>, %[[GIVEN:[a-z0-9]+]]: memref<4xf32> {kerf.name = "x"},
// CHECK-SAME: %[[SENT:[a-z0-9]+]]: memref<4xf32>, %[[AGAIN:[a-z0-9]+]]: memref<4xf32>,
// CHECK: exec.collective 0 all_reduce sum ["dp"] %[[SUM]] -> %[[SUM]]
// CHECK: exec.collective 1 all_reduce sum ["dp"] %[[GIVEN]] -> %[[B:.*]] bytes
// CHECK: exec.collective 2 all_reduce sum ["dp"] %[[SENT]] -> %[[C:.*]] bytes
// CHECK: exec.collective 3 all_reduce sum ["dp"] %[[AGAIN]] -> %[[D:.*]] bytes
module attributes {exec.mesh = #dist<mesh_shape["dp"=2]>} {
  exec.func @stage0_update(%sum: memref<4xf32>, %given: memref<4xf32> {kerf.name = "x"}, %sent: memref<4xf32>,
                           %again: memref<4xf32>, %y: memref<4xf32>)
      attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase update>} {
    %0 = exec.arena : memref<4xf32>
    exec.collective 0 all_reduce sum ["dp"] %sum -> %0 bytes 16 purpose gradient phase update node "" : memref<4xf32> -> memref<4xf32>
    exec.copy %0 -> %y : memref<4xf32> -> memref<4xf32>
    %1 = exec.arena : memref<4xf32>
    exec.collective 1 all_reduce sum ["dp"] %given -> %1 bytes 16 purpose gradient phase update node "" : memref<4xf32> -> memref<4xf32>
    exec.copy %1 -> %y : memref<4xf32> -> memref<4xf32>
    %2 = exec.arena : memref<4xf32>
    exec.collective 2 all_reduce sum ["dp"] %sent -> %2 bytes 16 purpose gradient phase update node "" : memref<4xf32> -> memref<4xf32>
    exec.copy %2 -> %y : memref<4xf32> -> memref<4xf32>
    %3 = exec.arena : memref<4xf32>
    exec.collective 3 all_reduce sum ["dp"] %again -> %3 bytes 16 purpose gradient phase update node "" : memref<4xf32> -> memref<4xf32>
    exec.copy %3 -> %y : memref<4xf32> -> memref<4xf32>
    exec.return
  }
  exec.func @stage0_last(%again: memref<4xf32>, %z: memref<4xf32>)
      attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase update>} {
    exec.copy %again -> %z : memref<4xf32> -> memref<4xf32>
    exec.return
  }
  exec.stage 0 {
    %sum = exec.slot "sum" : memref<4xf32>
    %given = exec.slot "input" : memref<4xf32>
    %sent = exec.slot "result" : memref<4xf32>
    %again = exec.slot "result" : memref<4xf32>
    %y = exec.slot "result" : memref<4xf32>
    %z = exec.slot "result" : memref<4xf32>
    exec.input 0 to %given micro_batch 0 : memref<4xf32>
    exec.zero %sum : memref<4xf32>
    exec.zero %sent : memref<4xf32>
    exec.zero %again : memref<4xf32>
    exec.send %sent channel 0 micro_batch 0 : memref<4xf32>
    exec.run @stage0_update(%sum, %given, %sent, %again, %y) micro_batch 0 : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>
    exec.run @stage0_last(%again, %z) micro_batch 0 : memref<4xf32>, memref<4xf32>
  }
}

// -----

// So is a sum that the function adds to before (the last backward pass together with the update), whose slot stands
// twice: it reads it and gives it back. Not one that is read behind the run.
// CHECK-LABEL: exec.func @stage0_backward_update(
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: memref<4xf32>, %[[KEPT:[a-z0-9]+]]: memref<4xf32>, %{{[a-z0-9]+}}: memref<4xf32>)
// CHECK: exec.launch @add(%[[SUM]]) -> (%[[SUM]])
// CHECK: exec.collective 0 all_reduce sum ["dp"] %[[SUM]] -> %[[SUM]]
// CHECK: exec.launch @add(%[[KEPT]]) -> (%[[KEPT]])
// CHECK: exec.collective 1 all_reduce sum ["dp"] %[[KEPT]] -> %[[B:.*]] bytes
module attributes {exec.mesh = #dist<mesh_shape["dp"=2]>} {
  exec.kernel @add(%x: tensor<4xf32>) -> tensor<4xf32> attributes {index = 0 : i64, node = ""} {
    %0 = nn.add %x, %x : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  exec.func @stage0_backward_update(%read: memref<4xf32>, %readKept: memref<4xf32>, %sum: memref<4xf32>,
                                    %kept: memref<4xf32>, %y: memref<4xf32>)
      attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase update>} {
    exec.launch @add(%sum) -> (%sum) : (memref<4xf32>) -> memref<4xf32>
    %0 = exec.arena : memref<4xf32>
    exec.collective 0 all_reduce sum ["dp"] %sum -> %0 bytes 16 purpose gradient phase update node "" : memref<4xf32> -> memref<4xf32>
    exec.copy %0 -> %y : memref<4xf32> -> memref<4xf32>
    exec.launch @add(%kept) -> (%kept) : (memref<4xf32>) -> memref<4xf32>
    %1 = exec.arena : memref<4xf32>
    exec.collective 1 all_reduce sum ["dp"] %kept -> %1 bytes 16 purpose gradient phase update node "" : memref<4xf32> -> memref<4xf32>
    exec.copy %1 -> %y : memref<4xf32> -> memref<4xf32>
    exec.return
  }
  exec.func @stage0_last(%again: memref<4xf32>, %z: memref<4xf32>)
      attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase update>} {
    exec.copy %again -> %z : memref<4xf32> -> memref<4xf32>
    exec.return
  }
  exec.stage 0 {
    %sum = exec.slot "sum" : memref<4xf32>
    %kept = exec.slot "sum" : memref<4xf32>
    %y = exec.slot "result" : memref<4xf32>
    %z = exec.slot "result" : memref<4xf32>
    exec.zero %sum : memref<4xf32>
    exec.zero %kept : memref<4xf32>
    exec.run @stage0_backward_update(%sum, %kept, %sum, %kept, %y) micro_batch 0
        : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>
    exec.run @stage0_last(%kept, %z) micro_batch 0 : memref<4xf32>, memref<4xf32>
  }
}

// -----

// A sum that one result of a kernel is written over is not taken for another one.
// CHECK-LABEL: exec.func @stage0_sum_and_part(
// CHECK-SAME: memref<4xf32>, %[[SUM:[a-z0-9]+]]: memref<4xf32>, %{{[a-z0-9]+}}: memref<4xf32>)
// CHECK: %[[PART:.*]] = exec.arena
// CHECK: exec.launch @add_and_double(%[[SUM]]) -> (%[[PART]], %[[SUM]])
module attributes {exec.mesh = #dist<mesh_shape[]>} {
  exec.kernel @add_and_double(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {index = 0 : i64, node = ""} {
    %0 = nn.mul %x, %x : tensor<4xf32>
    %1 = nn.add %x, %x : tensor<4xf32>
    exec.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  exec.func @stage0_sum_and_part(%read: memref<4xf32>, %sum: memref<4xf32>, %y: memref<4xf32>)
      attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase update>} {
    %0 = exec.arena : memref<4xf32>
    exec.launch @add_and_double(%sum) -> (%0, %sum) : (memref<4xf32>) -> (memref<4xf32>, memref<4xf32>)
    exec.copy %0 -> %y : memref<4xf32> -> memref<4xf32>
    exec.return
  }
  exec.stage 0 {
    %sum = exec.slot "sum" : memref<4xf32>
    %y = exec.slot "result" : memref<4xf32>
    exec.zero %sum : memref<4xf32>
    exec.run @stage0_sum_and_part(%sum, %sum, %y) micro_batch 0 : memref<4xf32>, memref<4xf32>, memref<4xf32>
  }
}
