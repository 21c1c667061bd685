// Every exec op is read as it is printed, in its own and in the generic form.
// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// CHECK: module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>}
module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
// CHECK: exec.model_input 0 "ids" : tensor<8x3xi64> -> tensor<4x3xi64> sharding #s_tp_x range [0, 5]
exec.model_input 0 "ids" : tensor<8x3xi64> -> tensor<4x3xi64> sharding <{"tp"}, {}> range [0, 5]
// CHECK: exec.model_output 0 "y" : tensor<2x4xf32> -> tensor<2x4xf32>
exec.model_output 0 "y" : tensor<2x4xf32> -> tensor<2x4xf32>
// CHECK: exec.channel 0 "/act" from 0 to 1 purpose activation phase forward : memref<4x40xf32>
exec.channel 0 "/act" from 0 to 1 purpose activation phase forward : memref<4x40xf32>
// CHECK: exec.parameter 0 "w" : memref<3x4xf32> from #exec.file_range<file = 0, offset = 64, length = 48, stored = tensor<3x4xf32>>
exec.parameter 0 "w" : memref<3x4xf32> from #exec.file_range<file = 0, offset = 64, length = 48, stored = tensor<3x4xf32>>
// CHECK: exec.parameter 1 "folded" : memref<4xf32> from #exec.derived stages [0]
exec.parameter 1 "folded" : memref<4xf32> from #exec.derived stages [0]
// CHECK: exec.parameter 2 "w[0,2]" : memref<3x1xf32> from #exec.file_range<{{.*}}> tensor "w"
// CHECK-SAME: global tensor<3x2xf32> starts [0, 2] sharding #s_x_tp library_only
exec.parameter 2 "w[0,2]" : memref<3x1xf32> from #exec.file_range<file = 0, offset = 64, length = 48, stored = tensor<3x4xf32>> tensor "w"
  global tensor<3x2xf32> starts [0, 2] sharding <{}, {"tp"}> library_only
// CHECK: exec.parameter 3 "momentum" : memref<4xf32> from 0.000000e+00 : f32 is_mutable
exec.parameter 3 "momentum" : memref<4xf32> from 0.0 : f32 is_mutable
// CHECK: exec.parameter 4 "table" : memref<2xi64> from dense<[1, 2]> : tensor<2xi64> init_only
exec.parameter 4 "table" : memref<2xi64> from dense<[1, 2]> : tensor<2xi64> init_only

// CHECK: exec.kernel @add_relu(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-SAME: attributes {count = 2 : i64, grain = 1 : i64, index = 0 : i64, node = "/relu"}
exec.kernel @add_relu(%a: tensor<2x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32>
    attributes {index = 0 : i64, node = "/relu", count = 2 : i64, grain = 1 : i64} {
  %0 = nn.add %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = nn.relu %0 : tensor<2x4xf32>
  // CHECK: exec.yield %{{.*}} : tensor<2x4xf32>
  exec.yield %1 : tensor<2x4xf32>
}

// CHECK: exec.func @stage0_init(%{{.*}}: memref<4xf32>) attributes {derived = array<i64: 1>, num_inputs = 0 : i64, phase = #exec<phase init>
exec.func @stage0_init(%b: memref<4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase init>, derived = array<i64: 1>} {
  %w = exec.param 0 : memref<3x4xf32>
  %row = exec.view %w at 16 : memref<3x4xf32> to memref<4xf32>
  exec.copy %row -> %b : memref<4xf32> -> memref<4xf32>
  exec.return
}

// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<2x3xf32> {kerf.name = "x"}, %[[Y:.*]]: memref<2x4xf32>)
exec.func @stage0_forward(%x: memref<2x3xf32> {kerf.name = "x"}, %y: memref<2x4xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 192 : i64} {
  // CHECK: %[[B:.*]] = exec.param 1 : memref<4xf32>
  %b = exec.param 1 : memref<4xf32>
  // CHECK: %[[T:.*]] = exec.arena at 0 : memref<2x4xf32>
  %t = exec.arena at 0 : memref<2x4xf32>
  %s = exec.arena at 64 : memref<2x4xf32>
  %i = exec.arena at 128 : memref<i64>
  // CHECK: exec.collective 0 all_reduce sum ["tp"] %[[T]] -> %[[T]] bytes 64 purpose activation phase forward node "/fc" :
  exec.collective 0 all_reduce sum ["tp"] %t -> %t bytes 64 purpose activation phase forward node "/fc"
    : memref<2x4xf32> -> memref<2x4xf32>
  // CHECK: %[[E:.*]] = exec.collective_start 1 permute ["tp"] pairs [0, 1] %[[T]] -> %{{.*}} bytes 32
  %e = exec.collective_start 1 permute ["tp"] pairs [0, 1] %t -> %s bytes 32 purpose gradient phase backward node "/fc"
    : memref<2x4xf32> -> memref<2x4xf32>
  // CHECK: exec.shard_index 0 ["tp"] -> %{{.*}} : memref<i64>
  exec.shard_index 0 ["tp"] -> %i : memref<i64>
  %half = exec.arena at 64 : memref<2x2xf32>
  %turned = exec.arena at 64 : memref<1x8xf32>
  // CHECK: exec.collective 2 reduce_scatter max ["tp"] dim 1
  exec.collective 2 reduce_scatter max ["tp"] dim 1 %t -> %half bytes 32 purpose activation phase forward node ""
    : memref<2x4xf32> -> memref<2x2xf32>
  // CHECK: exec.collective 3 all_gather ["tp"] dim 1
  exec.collective 3 all_gather ["tp"] dim 1 %half -> %t bytes 32 purpose parameter phase update node ""
    : memref<2x2xf32> -> memref<2x4xf32>
  // CHECK: exec.collective 4 all_to_all ["tp"] split 0 concat 1
  exec.collective 4 all_to_all ["tp"] split 0 concat 1 %t -> %turned bytes 32 purpose activation phase forward node ""
    : memref<2x4xf32> -> memref<1x8xf32>
  // CHECK: exec.collective 5 broadcast ["tp"] root 1
  exec.collective 5 broadcast ["tp"] root 1 %t -> %t bytes 32 purpose control phase prologue node ""
    : memref<2x4xf32> -> memref<2x4xf32>
  // CHECK: exec.collective_wait %[[E]]
  exec.collective_wait %e
  // CHECK: exec.launch @add_relu(%{{.*}}, %[[B]]) -> (%[[Y]]) : (memref<2x4xf32>, memref<4xf32>) -> memref<2x4xf32>
  exec.launch @add_relu(%s, %b) -> (%y) : (memref<2x4xf32>, memref<4xf32>) -> memref<2x4xf32>
  exec.return
}

// CHECK: exec.stage 0 arena 512 lower_bound 320 {
exec.stage 0 arena 512 lower_bound 320 {
  // CHECK: %[[SX:.*]] = exec.slot "x" at 192 : memref<2x3xf32>
  %x = exec.slot "x" at 192 : memref<2x3xf32>
  %y = exec.slot "y" at 256 : memref<2x4xf32>
  %sum = exec.slot "sum" at 320 : memref<4xf32>
  // CHECK: exec.input 0 to %[[SX]] micro_batch 0 : memref<2x3xf32>
  exec.input 0 to %x micro_batch 0 : memref<2x3xf32>
  // CHECK: exec.input 0 to %[[SX]] micro_batch 1 sharding #s_tp_x : memref<2x3xf32>
  exec.input 0 to %x micro_batch 1 sharding <{"tp"}, {}> : memref<2x3xf32>
  // CHECK: exec.recv %[[SX]] channel 0 micro_batch 1 : memref<2x3xf32>
  exec.recv %x channel 0 micro_batch 1 : memref<2x3xf32>
  // CHECK: exec.zero %{{.*}} : memref<4xf32>
  exec.zero %sum : memref<4xf32>
  // CHECK: exec.run @stage0_forward(%[[SX]], %[[SY:.*]]) micro_batch 0 : memref<2x3xf32>, memref<2x4xf32>
  exec.run @stage0_forward(%x, %y) micro_batch 0 : memref<2x3xf32>, memref<2x4xf32>
  // CHECK: exec.send %[[SY]] channel 1 micro_batch 0 held_until 7 : memref<2x4xf32>
  exec.send %y channel 1 micro_batch 0 held_until 7 : memref<2x4xf32>
  // CHECK: exec.output %[[SY]] to 0 micro_batch 0 : memref<2x4xf32>
  exec.output %y to 0 micro_batch 0 : memref<2x4xf32>
}
}
