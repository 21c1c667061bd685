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
exec.func @func_c1_tensor(%a: tensor<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.return
}

// -----

// expected-error @below {{num_inputs is 2 of 1}}
exec.func @func_c2_too_many_inputs(%a: memref<2xf32>) attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.return
}

// -----

exec.func @func_c3_beyond_scratch() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 64 : i64} {
  // expected-error @below {{ends at 72, beyond the scratch of 64}}
  %0 = exec.arena at 64 : memref<2xf32>
  exec.return
}

// -----

exec.func @func_c3_unplanned() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 64 : i64} {
  // expected-error @below {{has no offset in a planned function}}
  %0 = exec.arena : memref<2xf32>
  exec.return
}

// -----

// expected-error @below {{attribute 'phase' failed to satisfy constraint: part of a step}}
exec.func @func_c4_phase() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = "sideways"} {
  exec.return
}

// -----

// expected-error @below {{writes 1 buffers, derives 2 parameters}}
exec.func @func_c4_derived(%a: memref<2xf32>) attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase init>, derived = array<i64: 0, 1>} {
  exec.return
}

// -----

// expected-error @below {{is mutable and library_only}}
exec.parameter 0 "parameter_c1" : memref<2xf32> from 0.0 : f32 library_only is_mutable

// -----

// expected-error @below {{is library_only and init_only}}
exec.parameter 0 "parameter_c1" : memref<2xf32> from 0.0 : f32 library_only init_only

// -----

// expected-error @below {{is derived, and not of one stage alone}}
exec.parameter 0 "parameter_c2" : memref<2xf32> from #exec.derived

// -----

// expected-error @below {{comes from 0 : i64, expected a range of a file, a literal, a number of 'f32' or an init function}}
exec.parameter 0 "parameter_c3" : memref<2xf32> from 0 : i64

// -----

// expected-error @below {{is 'memref<2xf32>' of 'tensor<2x2xf32>' cut by other starts or another sharding}}
exec.parameter 0 "parameter_c4" : memref<2xf32> from 0.0 : f32 global tensor<2x2xf32> starts [0]

// -----

// expected-error @below {{8 bytes at 0 of file 0 do not hold 'tensor<3xf32>'}}
exec.parameter 0 "file_range_c1" : memref<3xf32> from #exec.file_range<file = 0, offset = 0, length = 8, stored = tensor<3xf32>>

// -----

// expected-error @below {{part 'tensor<4xi64>' does not fit 'tensor<4xf32>' and its sharding}}
exec.model_input 0 "model_input_c1" : tensor<4xf32> -> tensor<4xi64>

// -----

// expected-error @below {{part 'tensor<4xf32>' does not fit 'tensor<4xf32>' and its sharding}}
exec.model_output 0 "model_output_c1" : tensor<4xf32> -> tensor<4xf32> sharding <{}, {}>

// -----

// expected-error @below {{leads from stage 1 to itself}}
exec.channel 0 "channel_c1" from 1 to 1 purpose activation phase forward : memref<4xf32>

// -----

exec.stage 0 {
  // expected-error @below {{cannot stand in a stage}}
  exec.kernel @stage_c1(%a: tensor<2xf32>) -> tensor<2xf32> attributes {index = 0 : i64, node = ""} {
    exec.yield %a : tensor<2xf32>
  }
}

// -----

exec.stage 0 arena 64 {
  // expected-error @below {{has no offset in a planned stage}}
  %0 = exec.slot "stage_c2" : memref<2xf32>
}

// -----

exec.stage 0 arena 64 {
  // expected-error @below {{ends at 72, beyond the arena of 64}}
  %0 = exec.slot "stage_c2" at 64 : memref<2xf32>
}

// -----

exec.stage 0 {
  // expected-error @below {{offset is 32, expected a non-negative multiple of 64}}
  %0 = exec.slot "slot_c1" at 32 : memref<2xf32>
}

// -----

exec.stage 0 {
  %0 = exec.slot "input_c1" : memref<2xf32>
  // expected-error @below {{is cut by a sharding of 2 dimensions into 'memref<2xf32>'}}
  exec.input 0 to %0 micro_batch 0 sharding <{}, {}> : memref<2xf32>
}

// -----

exec.stage 0 {
  // expected-error @below {{names @nothing, which is no function}}
  exec.run @nothing() micro_batch 0
}

// -----

exec.func @run_c1(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.return
}
exec.stage 0 {
  %0 = exec.slot "run_c1" : memref<3xf32>
  // expected-error @below {{hands slots ('memref<3xf32>') to a function of ('memref<2xf32>')}}
  exec.run @run_c1(%0) micro_batch 0 : memref<3xf32>
}

// -----

// expected-error @below {{unknown attribute exec.colour on a module, expected one of exec.target, exec.mesh}}
module attributes {exec.colour = "blue"} {}

// -----

// expected-error @below {{exec.stored has no meaning on a module}}
module attributes {exec.stored} {}

// -----

func.func @mark_with_a_value(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{exec.stored must be a mark without a value}}
  %y = nn.relu %x {exec.stored = 1 : i64} : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error @below {{exec.update has no meaning on a function}}
func.func @mark_of_a_function() attributes {exec.update} {
  return
}

// -----

// expected-error @below {{unknown attribute exec.stored_as on an argument, which takes none of this dialect}}
func.func @unknown_on_an_argument(%x: tensor<2xf32> {exec.stored_as}) {
  return
}

// -----

exec.func @arena_c1_misaligned() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{offset is 32, expected a non-negative multiple of 64}}
  %0 = exec.arena at 32 : memref<2xf32>
  exec.return
}

// -----

exec.func @view_c1_outside(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{bytes [4, 12) lie outside the source's 8}}
  %0 = exec.view %a at 4 : memref<2xf32> to memref<2xf32>
  exec.return
}

// -----

exec.func @view_c2_element(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{offset 2 cuts an element}}
  %0 = exec.view %a at 2 : memref<2xf32> to memref<1xf32>
  exec.return
}

// -----

exec.kernel @relu(%a: tensor<2xf32>) -> tensor<2xf32> attributes {index = 0 : i64, node = ""} {
  %0 = nn.relu %a : tensor<2xf32>
  exec.yield %0 : tensor<2xf32>
}
exec.func @launch_c1_shape(%a: memref<3xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{input 0 is 'memref<3xf32>', the kernel's is 'tensor<2xf32>'}}
  exec.launch @relu(%a) -> (%b) : (memref<3xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @launch_unknown(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{names @nothing, which is no kernel}}
  exec.launch @nothing(%a) -> (%a) : (memref<2xf32>) -> memref<2xf32>
  exec.return
}

// -----

exec.func @copy_c1_size(%a: memref<2xf32>, %b: memref<3xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{copies 'memref<2xf32>' to 'memref<3xf32>'}}
  exec.copy %a -> %b : memref<2xf32> -> memref<3xf32>
  exec.return
}

// -----

func.func @group_c2_arguments(%x: tensor<4xf32>) {
  %e = exec.empty : tensor<4xf32>
  // expected-error @below {{has arguments ('tensor<4xf32>') for inputs ('tensor<4xf32>', 'tensor<4xf32>')}}
  "exec.group"(%x, %x, %e) <{index = 0 : i64, node = "", operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%a: tensor<4xf32>):
    exec.yield %a : tensor<4xf32>
  }) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @group_c3_other_type(%x: tensor<4xf32>) {
  %e = exec.empty : tensor<3xf32>
  // expected-error @below {{yields ('tensor<4xf32>') into ('tensor<3xf32>'), has results ('tensor<3xf32>')}}
  %0 = exec.group 0 "" (%a = %x : tensor<4xf32>) into(%e : tensor<3xf32>) {
    exec.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group_c4_negative(%x: tensor<4xf32>) {
  // expected-error @below {{index is negative}}
  %0 = exec.group -1 "" (%a = %x : tensor<4xf32>) into(%x : tensor<4xf32>) {
    exec.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group_c1_foreign_op(%x: tensor<4xf32>) {
  %0 = exec.group 0 "" (%a = %x : tensor<4xf32>) into(%x : tensor<4xf32>) {
    // expected-error @below {{cannot stand in a kernel}}
    %e = exec.empty : tensor<4xf32>
    exec.yield %e : tensor<4xf32>
  }
  return
}

// -----

func.func @library_call_no_result(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  %e = exec.empty : tensor<2x4xf32>
  // expected-error @below {{has results (), writes ('tensor<2x4xf32>')}}
  exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : tensor<2x3xf32>) rhs(%w : tensor<3x4xf32>) dst(%e : tensor<2x4xf32>)
  return
}

// -----

func.func @library_call_mixed(%x: memref<2x3xf32>, %w: tensor<3x4xf32>, %y: tensor<2x4xf32>) {
  // expected-error @below {{has tensors and buffers as operands}}
  %0 = exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : tensor<3x4xf32>) dst(%y : tensor<2x4xf32>) : tensor<2x4xf32>
  return
}

// -----

func.func @matmul_c5_sums_of_nobody(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  %e = exec.empty : tensor<2x4xf32>
  %s = exec.empty : tensor<4xf32>
  // expected-error @below {{writes sums where no group does}}
  %0 = exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : tensor<2x3xf32>) rhs(%w : tensor<3x4xf32>)
    dst(%e : tensor<2x4xf32>) sums(%s : tensor<4xf32>) <of = rhs, rows = 1, kernel = 0> : tensor<2x4xf32>
  return
}

// -----

func.func @empty_c1(%x: tensor<4xf32>) {
  // expected-error @below {{is the destination of several results}}
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<4xf32>) into(%e : tensor<4xf32>) {
    exec.yield %a : tensor<4xf32>
  }
  %1 = exec.group 1 "" (%a = %x : tensor<4xf32>) into(%e : tensor<4xf32>) {
    exec.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @group_c1_capture(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<4xf32>) into(%e : tensor<4xf32>) {
    // expected-error @below {{reads what is no argument of its kernel}}
    exec.yield %y : tensor<4xf32>
  }
  return
}

// -----

func.func @group_c5() {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  // expected-error @below {{runs at load and reads what steps change}}
  %0 = exec.group 0 "" at_load (%a = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
    exec.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @empty_c1_joined(%x: tensor<1x4xf32>) {
  // expected-error @below {{is the destination of several results}}
  %e = exec.empty : tensor<1x4xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<1x4xf32>) into(%e : tensor<1x4xf32>) {
    exec.yield %a : tensor<1x4xf32>
  }
  %1 = exec.join %0 into(%e : tensor<1x4xf32>) : tensor<1x4xf32>
  return
}

// -----

func.func @join_c1_type(%x: tensor<2xf32>, %y: tensor<2xi32>) {
  %e = exec.empty : tensor<4xf32>
  // expected-error @below {{joins 'tensor<2xi32>' into 'tensor<4xf32>'}}
  %0 = exec.join %x, %y into(%e : tensor<4xf32>) : tensor<2xf32>, tensor<2xi32>
  return
}

// -----

func.func @join_c1_elements(%x: tensor<2xf32>) {
  %e = exec.empty : tensor<4xf32>
  // expected-error @below {{has parts of 8 bytes, its result has 16}}
  %0 = exec.join %x into(%e : tensor<4xf32>) : tensor<2xf32>
  return
}
