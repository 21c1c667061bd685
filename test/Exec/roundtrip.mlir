// Every exec op is read as it is printed, in its own and in the generic form.
// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// CHECK: exec.parameter 0 "w" {{{.*}}tensor = "w"} : memref<3x4xf32> source {{{.*}}offset = 64 : i64
exec.parameter 0 "w" {dtype = "f32", global_shape = [3, 4], local_shape = [3, 4], sharding = [[], []], tensor = "w"}
  : memref<3x4xf32> source {file = 0 : i64, length = 48 : i64, offset = 64 : i64, stored = tensor<3x4xf32>}
// CHECK: exec.parameter 1 "folded" {{{.*}}derived = true{{.*}}} : memref<4xf32>
exec.parameter 1 "folded" {derived = true, dtype = "f32", local_shape = [4], stages = [0]} : memref<4xf32>

// CHECK: exec.kernel @add_relu(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<4xf32>) -> tensor<2x4xf32> attributes {count = 2 : i64, grain = 1 : i64, index = 0 : i64, node = "/relu"}
exec.kernel @add_relu(%a: tensor<2x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32>
    attributes {index = 0 : i64, node = "/relu", count = 2 : i64, grain = 1 : i64} {
  %0 = nn.add %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = nn.relu %0 : tensor<2x4xf32>
  // CHECK: exec.yield %{{.*}} : tensor<2x4xf32>
  exec.yield %1 : tensor<2x4xf32>
}

// CHECK: exec.func @stage0_init(%{{.*}}: memref<4xf32>) attributes {derived = array<i64: 1>, num_inputs = 0 : i64, phase = "init"
exec.func @stage0_init(%b: memref<4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "init", derived = array<i64: 1>} {
  %w = exec.param 0 : memref<3x4xf32>
  %row = exec.view %w at 16 : memref<3x4xf32> to memref<4xf32>
  exec.copy %row -> %b : memref<4xf32> -> memref<4xf32>
  exec.return
}

// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<2x3xf32> {kerf.name = "x"}, %[[Y:.*]]: memref<2x4xf32>)
exec.func @stage0_forward(%x: memref<2x3xf32> {kerf.name = "x"}, %y: memref<2x4xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward", scratch = 192 : i64} {
  // CHECK: %[[B:.*]] = exec.param 1 : memref<4xf32>
  %b = exec.param 1 : memref<4xf32>
  // CHECK: %[[T:.*]] = exec.arena at 0 : memref<2x4xf32>
  %t = exec.arena at 0 : memref<2x4xf32>
  %s = exec.arena at 64 : memref<2x4xf32>
  %i = exec.arena at 128 : memref<i64>
  // CHECK: exec.library 0 {{{.*}}kind = "matmul"{{.*}}}(%[[X]]) -> (%[[T]]) : (memref<2x3xf32>) -> memref<2x4xf32>
  exec.library 0 {batch = [], dst = {buffer = 1 : i64}, dtype = "f32", k = 3 : i64, kind = "matmul",
      lhs = {buffer = 0 : i64}, m = 2 : i64, n = 4 : i64, node = "/fc", rhs = {param = 0 : i64}}
    (%x) -> (%t) : (memref<2x3xf32>) -> memref<2x4xf32>
  // CHECK: exec.collective 0 {{{.*}}} %[[T]] -> %[[T]] : memref<2x4xf32> -> memref<2x4xf32>
  exec.collective 0 {kind = "all_reduce", reduction = "sum", dtype = "f32", axes = [{axis = "tp"}],
      src_shape = [2, 4], dst_shape = [2, 4]} %t -> %t : memref<2x4xf32> -> memref<2x4xf32>
  // CHECK: %[[E:.*]] = exec.collective_start 1
  %e = exec.collective_start 1 {kind = "permute", pairs = [[0, 1]], dtype = "f32", axes = [{axis = "tp"}],
      src_shape = [2, 4], dst_shape = [2, 4]} %t -> %s : memref<2x4xf32> -> memref<2x4xf32>
  // CHECK: exec.shard_index 0 [{axis = "tp"}] -> %{{.*}} : memref<i64>
  exec.shard_index 0 [{axis = "tp"}] -> %i : memref<i64>
  // CHECK: exec.collective_wait %[[E]]
  exec.collective_wait %e
  // CHECK: exec.launch @add_relu(%{{.*}}, %[[B]]) -> (%[[Y]]) : (memref<2x4xf32>, memref<4xf32>) -> memref<2x4xf32>
  exec.launch @add_relu(%s, %b) -> (%y) : (memref<2x4xf32>, memref<4xf32>) -> memref<2x4xf32>
  exec.return
}

// CHECK: exec.stage 0 slots [{bytes = 24 : i64, name = "x"}, {bytes = 32 : i64, name = "y"}] instructions [{input = 0 : i64
exec.stage 0 slots [{name = "x", bytes = 24 : i64}, {name = "y", bytes = 32 : i64}]
  instructions [{input = 0 : i64, slot = 0 : i64, micro_batch = 0 : i64},
    {run = @stage0_forward, micro_batch = 0 : i64, slots = [0, 1]},
    {output = 0 : i64, slot = 1 : i64, micro_batch = 0 : i64}]
