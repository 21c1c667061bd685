// RUN: kerf-opt %s --split-input-file --verify-diagnostics
// REQUIRES: kerf-opt

dist.mesh @mesh ["x"=2]
func.func @mask_c1_dim(%x: tensor<3xf32>) {
  // expected-error @below {{dim is 1, expected less than rank 1}}
  %0 = dist.mask %x dim 1 size 5 over ["x"] fill 0.0 : f32 : tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @mask_c2_size(%x: tensor<3xf32>) {
  // expected-error @below {{dimension 0 is 3, expected at least 4 for 7 in 2 parts}}
  %0 = dist.mask %x dim 0 size 7 over ["x"] fill 0.0 : f32 : tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @mask_c3_fill(%x: tensor<3xf32>) {
  // expected-error @below {{fill is 'i32', expected 'f32'}}
  %0 = dist.mask %x dim 0 size 5 over ["x"] fill 0 : i32 : tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @shard_index_c1_axis_not_in_mesh() {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.shard_index ["y"] scale 1 : tensor<i64>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reshard_c1_no_global(%x: tensor<4xf32>) {
  // expected-error @below {{with 'from' needs the global tensor type after 'of'}}
  %0 = dist.reshard %x from <{}> to <{"x"}> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reshard_c1_local_type(%x: tensor<4xf32>) {
  // expected-error @below {{result is 'tensor<3xf32>', expected 'tensor<2xf32>' for <{x}> of 'tensor<4xf32>'}}
  %0 = dist.reshard %x from <{}> to <{"x"}> of tensor<4xf32> : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reshard_c2_types(%x: tensor<4xf32>) {
  // expected-error @below {{expected one global type}}
  %0 = dist.reshard %x to <{"x"}> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reshard_c3_new_partial(%x: tensor<4xf32>) {
  // expected-error @below {{result is partial over "x" but the operand is not}}
  %0 = dist.reshard %x from <{}> to <{}, partial sum {"x"}> of tensor<4xf32> : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{holds an op that is no instruction}}
dist.schedule 0 {
  // expected-note @below {{this one}}
  %0 = nn.constant dense<1.0> : tensor<2xf32>
}

// -----

dist.mesh @mesh ["pp"=2]
dist.schedule 0 {
}
// expected-error @below {{is the second one of stage 0}}
dist.schedule 0 {
}

// -----

dist.mesh @mesh ["pp"=2]
dist.schedule 0 {
  // expected-error @below {{runs @f, which does not exist}}
  dist.run @f() micro_batch 0 : () -> ()
}

// -----

dist.mesh @mesh ["pp"=2]
func.func @f(%x: tensor<2xf32>) {
  return
}
dist.schedule 0 {
  // expected-error @below {{has types '() -> ()', expected those of @f}}
  dist.run @f() micro_batch 0 : () -> ()
}

// -----

dist.mesh @mesh ["pp"=2]
dist.schedule 0 {
  // expected-error @below {{channel 3 does not exist}}
  %0 = dist.recv channel 3 micro_batch 0 : tensor<2xf32>
}

// -----

dist.mesh @mesh ["pp"=2]
dist.channel 3 from 0 to 1 : tensor<2xf32>
dist.schedule 0 {
  // expected-error @below {{channel 3 enters stage 1, expected 0}}
  %0 = dist.recv channel 3 micro_batch 0 : tensor<2xf32>
}

// -----

dist.mesh @mesh ["pp"=2]
dist.channel 3 from 0 to 1 : tensor<2xf32>
dist.schedule 1 {
  // expected-error @below {{moves 'tensor<4xf32>', expected 'tensor<2xf32>' of channel 3}}
  %0 = dist.recv channel 3 micro_batch 0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{joins stage 2, expected less than 2}}
dist.channel 0 from 0 to 2 : tensor<2xf32>

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{joins stage 1 to itself}}
dist.channel 0 from 1 to 1 : tensor<2xf32>

// -----

dist.mesh @mesh ["pp"=2]
dist.channel 0 from 0 to 1 : tensor<2xf32>
// expected-error @below {{is the second one of number 0}}
dist.channel 0 from 0 to 1 : tensor<4xf32>
