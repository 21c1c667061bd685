// Each constraint of exec.loop is an error of one sentence.
//
// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @loop_unknown(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{names @nothing, which is no function}}
  %0 = exec.loop @nothing trip(%n : tensor<i64>) while(%go : tensor<i1>) : tensor<i64>
  return
}

// -----

func.func private @body(%i: tensor<i64>, %a: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>)
func.func @loop_c1(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{hands ('tensor<i64>') to a function of ('tensor<i64>', 'tensor<4xf32>') that gives ('tensor<i1>', 'tensor<4xf32>')}}
  %0 = exec.loop @body trip(%n : tensor<i64>) while(%go : tensor<i1>) : tensor<i64>
  return
}

// -----

func.func private @body(%i: tensor<i64>) -> (tensor<i1>, tensor<4xf32>)
func.func @loop_c2_no_limit(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{stacks tensors without a limit}}
  %0:2 = exec.loop @body trip(%n : tensor<i64>) while(%go : tensor<i1>) : tensor<i64>, tensor<3x4xf32>
  return
}

// -----

func.func private @body(%i: tensor<i64>) -> (tensor<i1>, tensor<4xf32>)
func.func @loop_c2_limit(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{has a limit of -2}}
  %0:2 = exec.loop @body limit -2 trip(%n : tensor<i64>) while(%go : tensor<i1>) : tensor<i64>, tensor<3x4xf32>
  return
}

// -----

func.func private @body(%i: tensor<i64>) -> (tensor<i1>, tensor<4xf32>)
func.func @loop_c2_results(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{gives ('tensor<i64>', 'tensor<3x4xf32>'), expected ('tensor<i64>', 'tensor<2x4xf32>')}}
  %0:2 = exec.loop @body limit 2 trip(%n : tensor<i64>) while(%go : tensor<i1>) : tensor<i64>, tensor<3x4xf32>
  return
}

// -----

exec.func @loop_c3(%n: memref<i64>, %go: memref<i1>, %count: memref<i64>) attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error@+1 {{has ('memref<i64>') besides, expected ('tensor<i64>', 'tensor<i1>')}}
  exec.loop @step trip(%n : memref<i64>) while(%go : memref<i1>) into(%count : memref<i64>) temporary(%count : memref<i64>)
  exec.return
}
exec.func @step(%i: memref<i64>, %c: memref<i1>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.return
}
