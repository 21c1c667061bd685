// One broken constraint each; the names are those of the descriptions.
// RUN: kerf-opt --split-input-file --verify-diagnostics %s

// expected-error @below {{has 'tensor<?xf32>', expected static tensors}}
exec.kernel @kernel_c1_dynamic(%a: tensor<?xf32>) -> tensor<?xf32> attributes {index = 0 : i64, node = ""} {
  exec.yield %a : tensor<?xf32>
}

// -----

exec.kernel @kernel_c2_foreign_op(%a: tensor<2xf32>) -> tensor<2xf32> attributes {index = 0 : i64, node = ""} {
  %0 = nn.relu %a : tensor<2xf32>
  // expected-error @below {{cannot stand in a kernel}}
  %1 = dist.all_reduce %0 sum ["tp"] : tensor<2xf32> -> tensor<2xf32>
  exec.yield %1 : tensor<2xf32>
}

// -----

exec.kernel @kernel_c3_wrong_type(%a: tensor<2xf32>) -> tensor<3xf32> attributes {index = 0 : i64, node = ""} {
  // expected-error @below {{yields ('tensor<2xf32>'), the kernel gives ('tensor<3xf32>')}}
  exec.yield %a : tensor<2xf32>
}

// -----

// expected-error @below {{has no result}}
exec.kernel @kernel_c4_no_result(%a: tensor<2xf32>) attributes {index = 0 : i64, node = ""} {
  exec.yield
}

// -----

// expected-error @below {{has one of count and grain, expected both or none}}
exec.kernel @kernel_c5_no_grain(%a: tensor<2xf32>) -> tensor<2xf32> attributes {index = 0 : i64, node = "", count = 1 : i64} {
  exec.yield %a : tensor<2xf32>
}

// -----

// expected-error @below {{argument is 'tensor<2xf32>', expected a buffer}}
exec.func @func_c1_tensor(%a: tensor<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  exec.return
}

// -----

// expected-error @below {{num_inputs is 2 of 1}}
exec.func @func_c2_too_many_inputs(%a: memref<2xf32>) attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = "forward"} {
  exec.return
}

// -----

exec.func @func_c3_beyond_scratch() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "forward", scratch = 64 : i64} {
  // expected-error @below {{ends at 72, beyond the scratch of 64}}
  %0 = exec.arena at 64 : memref<2xf32>
  exec.return
}

// -----

exec.func @func_c3_unplanned() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "forward", scratch = 64 : i64} {
  // expected-error @below {{has no offset in a planned function}}
  %0 = exec.arena : memref<2xf32>
  exec.return
}

// -----

// expected-error @below {{phase is "sideways", expected init, prologue, forward, backward or update}}
exec.func @func_c4_phase() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "sideways"} {
  exec.return
}

// -----

// expected-error @below {{writes 1 buffers, derives 2 parameters}}
exec.func @func_c4_derived(%a: memref<2xf32>) attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "init", derived = array<i64: 0, 1>} {
  exec.return
}

// -----

// expected-error @below {{has 2 of tensor, splat and derived, expected one}}
exec.parameter 0 "parameter_c1" {tensor = "w", splat = 1.0 : f64} : memref<2xf32>

// -----

// expected-error @below {{names a tensor without a source}}
exec.parameter 0 "parameter_c1" {tensor = "w"} : memref<2xf32>

// -----

// expected-error @below {{names slot 1 : i64 of 1}}
exec.stage 0 slots [{name = "stage_c1", bytes = 8 : i64}] instructions [{input = 0 : i64, slot = 1 : i64}]

// -----

exec.func @arena_c1_misaligned() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{offset is 32, expected a non-negative multiple of 64}}
  %0 = exec.arena at 32 : memref<2xf32>
  exec.return
}

// -----

exec.func @view_c1_outside(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{bytes [4, 12) lie outside the source's 8}}
  %0 = exec.view %a at 4 : memref<2xf32> to memref<2xf32>
  exec.return
}

// -----

exec.func @view_c2_element(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{offset 2 cuts an element}}
  %0 = exec.view %a at 2 : memref<2xf32> to memref<1xf32>
  exec.return
}

// -----

exec.kernel @relu(%a: tensor<2xf32>) -> tensor<2xf32> attributes {index = 0 : i64, node = ""} {
  %0 = nn.relu %a : tensor<2xf32>
  exec.yield %0 : tensor<2xf32>
}
exec.func @launch_c1_shape(%a: memref<3xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{input 0 is 'memref<3xf32>', the kernel's is 'tensor<2xf32>'}}
  exec.launch @relu(%a) -> (%b) : (memref<3xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @launch_unknown(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{names @nothing, which is no kernel}}
  exec.launch @nothing(%a) -> (%a) : (memref<2xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @library_c1_buffer(%a: memref<2xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{descriptor names buffer 2 of 2 buffers}}
  exec.library 0 {lhs = {buffer = 2 : i64}, dst = {buffer = 1 : i64}} (%a) -> (%b) : (memref<2xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @library_c1_unnamed(%a: memref<2xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{descriptor does not name buffer 0}}
  exec.library 0 {dst = {buffer = 1 : i64}} (%a) -> (%b) : (memref<2xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @library_c2_dst(%a: memref<2xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{descriptor's dst must be its first output, buffer 1}}
  exec.library 0 {lhs = {buffer = 1 : i64}, dst = {buffer = 0 : i64}} (%a) -> (%b) : (memref<2xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @collective_c1_shape(%a: memref<2xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{dst is 'memref<2xf32>', not what the descriptor says}}
  exec.collective 0 {kind = "all_reduce", dtype = "f32", src_shape = [2], dst_shape = [3]} %a -> %b : memref<2xf32> -> memref<2xf32>
  exec.return
}

// -----

exec.func @collective_c2_in_place(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{permute reads and writes one buffer}}
  exec.collective 0 {kind = "permute", dtype = "f32", src_shape = [2], dst_shape = [2]} %a -> %a : memref<2xf32> -> memref<2xf32>
  exec.return
}

// -----

exec.func @collective_wait_c1_twice(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  %e = exec.collective_start 0 {kind = "all_reduce", dtype = "f32", src_shape = [2], dst_shape = [2]} %a -> %a : memref<2xf32> -> memref<2xf32>
  // expected-error @below {{is not the only wait for its event}}
  exec.collective_wait %e
  exec.collective_wait %e
  exec.return
}

// -----

exec.func @shard_index_c1_type(%a: memref<1xi64>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{stores to 'memref<1xi64>', expected memref<i64>}}
  exec.shard_index 0 [{axis = "tp"}] -> %a : memref<1xi64>
  exec.return
}

// -----

exec.func @copy_c1_size(%a: memref<2xf32>, %b: memref<3xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
  // expected-error @below {{copies 'memref<2xf32>' to 'memref<3xf32>'}}
  exec.copy %a -> %b : memref<2xf32> -> memref<3xf32>
  exec.return
}
