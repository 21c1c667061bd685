// RUN: kerf-opt %s --split-input-file --verify-diagnostics
// REQUIRES: kerf-opt

// accumulate C1
func.func @accumulate_c1(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @below {{into is 'tensor<5xf32>', expected 'tensor<4xf32>'}}
  %0 = dist.accumulate %x into %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

// assign C1
func.func @assign_c1_argument(%x: tensor<4xf32>) {
  // expected-error @below {{assigns to what is no mutable parameter}}
  dist.assign %x, %x : tensor<4xf32>
  return
}

// -----

// assign C1
func.func @assign_c1_frozen(%x: tensor<4xf32>) {
  %w = nn.weight "w" file 0 at 0 : tensor<4xf32>
  // expected-error @below {{assigns to what is no mutable parameter}}
  dist.assign %w, %x : tensor<4xf32>
  return
}

// -----

// assign C2
func.func @assign_c2(%x: tensor<4xf32>) {
  %m = nn.state "m" {init = 0.0 : f32} : tensor<4xf32>
  // expected-error @below {{assigns m a second time}}
  dist.assign %m, %x : tensor<4xf32>
  // expected-note @below {{the other one}}
  dist.assign %m, %x : tensor<4xf32>
  return
}

// -----

// assign C3
dist.mesh @mesh ["dp"=2]
func.func @assign_c3(%x: tensor<4xf32>) {
  %m = nn.state "m" {init = 0.0 : f32, dist.plan = #dist.plan<results = [#dist.sharding<{"dp"}>]>} : tensor<4xf32>
  // expected-error @below {{expected the source's #dist.sharding<{"dp"}>}}
  dist.assign %m, %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"dp"}>, #dist.sharding<{}>]>} : tensor<4xf32>
  return
}

// -----

// state C1
func.func @state_c1() {
  // expected-error @below {{init is 'f64', expected 'f32'}}
  %m = nn.state "m" {init = 0.0 : f64} : tensor<4xf32>
  return
}

// -----

func.func @phase(%x: tensor<4xf32>) {
  // expected-error @below {{dist.step must be a #dist.step}}
  %0 = nn.neg %x {dist.step = "update"} : tensor<4xf32>
  return
}

// -----

func.func @unknown_phase(%x: tensor<4xf32>) {
  // expected-error @below {{unknown phase 'before'}}
  %0 = nn.neg %x {dist.step = #dist.step<before>} : tensor<4xf32>
  return
}

// -----

func.func @unknown_key(%x: tensor<4xf32>) {
  // expected-error @below {{unknown purpose 'stage'}}
  %0 = nn.neg %x {dist.step = #dist.step<update, stage 1>} : tensor<4xf32>
  return
}

// -----

func.func @twice(%x: tensor<4xf32>) {
  // expected-error @below {{expected colocation, purpose and loss or recomputed once each, in this order}}
  %0 = nn.neg %x {dist.step = #dist.step<update, gradient, colocation 1>} : tensor<4xf32>
  return
}

// -----

// step C1
func.func @step_c1(%x: tensor<4xf32>) {
  // expected-error @below {{a step that says nothing: forward goes without}}
  %0 = nn.neg %x {dist.step = #dist.step<forward>} : tensor<4xf32>
  return
}

// -----

// step C2
func.func @step_c2(%x: tensor<4xf32>) {
  // expected-error @below {{colocation is -1, expected at least 0}}
  %0 = nn.neg %x {dist.step = #dist.step<update, colocation -1>} : tensor<4xf32>
  return
}

// -----

// step C3
func.func @step_c3(%x: tensor<4xf32>) {
  // expected-error @below {{an op of the loss is in phase update, expected forward}}
  %0 = nn.neg %x {dist.step = #dist.step<update, loss>} : tensor<4xf32>
  return
}

// -----

// step C4
func.func @step_c4(%x: tensor<4xf32>) {
  // expected-error @below {{an op that is recomputed is in phase backward_weight, expected backward_input}}
  %0 = nn.neg %x {dist.step = #dist.step<backward_weight, recomputed>} : tensor<4xf32>
  return
}

// -----

func.func @local_reduction(%x: tensor<4xf32>) {
  // expected-error @below {{dist.local_reduction must be a #dist<reach ...>}}
  %0 = nn.neg %x {dist.local_reduction = "rank"} : tensor<4xf32>
  return
}
