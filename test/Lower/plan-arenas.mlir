// Work in place, then an offset for every buffer and slot.
// RUN: kerf-opt %s --split-input-file --kerf-plan-arenas | FileCheck %s
// REQUIRES: kerf-opt

// Buffers that are live together lie side by side, at multiples of 64 bytes; what
// comes later lies where one is that nobody reads any more.
// CHECK-LABEL: exec.func @offsets(
// CHECK-SAME: scratch = 192 : i64
// CHECK-DAG: %[[A:.*]] = exec.arena at 0 : memref<32xf32>
// CHECK-DAG: %[[B:.*]] = exec.arena at 128 : memref<2xf32>
// CHECK-DAG: %[[C:.*]] = exec.arena at 0 : memref<16xf32>
// CHECK-NOT: exec.arena
// CHECK: exec.return
exec.func @offsets(%x: memref<32xf32>, %y: memref<2xf32>, %z: memref<16xf32>)
    attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %a = exec.arena : memref<32xf32>
  %b = exec.arena : memref<2xf32>
  %c = exec.arena : memref<16xf32>
  %unused = exec.arena : memref<64xf32>
  exec.copy %x -> %a : memref<32xf32> -> memref<32xf32>
  exec.copy %y -> %b : memref<2xf32> -> memref<2xf32>
  exec.copy %a -> %x : memref<32xf32> -> memref<32xf32>
  exec.copy %z -> %c : memref<16xf32> -> memref<16xf32>
  exec.copy %b -> %y : memref<2xf32> -> memref<2xf32>
  exec.copy %c -> %z : memref<16xf32> -> memref<16xf32>
  exec.return
}

// -----

// A collective that was started has its buffers until somebody waits for it.
// CHECK-LABEL: exec.func @started(
// CHECK-SAME: scratch = 192 : i64
module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @started(%x: memref<4xf32>, %y: memref<8xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %a = exec.arena : memref<4xf32>
  %b = exec.arena : memref<8xf32>
  %c = exec.arena : memref<4xf32>
  exec.copy %x -> %a : memref<4xf32> -> memref<4xf32>
  %e = exec.collective_start 0 all_gather ["tp"] dim 0 %a -> %b bytes 16 purpose activation phase forward node ""
    : memref<4xf32> -> memref<8xf32>
  exec.copy %x -> %c : memref<4xf32> -> memref<4xf32>
  exec.copy %c -> %x : memref<4xf32> -> memref<4xf32>
  exec.collective_wait %e
  exec.copy %b -> %y : memref<8xf32> -> memref<8xf32>
  exec.return
}
}

// -----

// Slots lie behind the scratch memory of the functions that the stage runs. What
// is sent stays until its receiver has it: %y does not lie over %x.
// CHECK-LABEL: exec.stage 0 arena 192 lower_bound 192 {
// CHECK-DAG: exec.slot "x" at 64 : memref<2xf32>
// CHECK-DAG: exec.slot "y" at 128 : memref<2xf32>
// CHECK-DAG: exec.slot "z" at 64 : memref<2xf32>
exec.channel 0 "" from 0 to 1 purpose activation phase forward : memref<2xf32>
exec.func @run(%x: memref<2xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %a = exec.arena : memref<2xf32>
  exec.copy %x -> %a : memref<2xf32> -> memref<2xf32>
  exec.copy %a -> %x : memref<2xf32> -> memref<2xf32>
  exec.return
}
exec.stage 0 {
  %x = exec.slot "x" : memref<2xf32>
  %y = exec.slot "y" : memref<2xf32>
  %z = exec.slot "z" : memref<2xf32>
  exec.zero %x : memref<2xf32>
  exec.send %x channel 0 micro_batch 0 held_until 4 : memref<2xf32>
  exec.zero %y : memref<2xf32>
  exec.run @run(%y) micro_batch 0 : memref<2xf32>
  exec.run @run(%y) micro_batch 1 : memref<2xf32>
  exec.zero %z : memref<2xf32>
}
