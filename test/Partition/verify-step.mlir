// RUN: kerf-opt %s --split-input-file --kerf-verify-plan --verify-diagnostics
// REQUIRES: kerf-opt

// The order of a step, and each part where it belongs: nothing to say.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2, "tp"=2]
func.func @right(%x: tensor<4xf32> {dist.sharding = #vector}) {
  %n = nn.neg %x {dist.step = #dist.step<prologue>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>} : tensor<4xf32>
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>, dist.step = #dist.step<forward, colocation 0>} : tensor<4xf32>
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>, dist.step = #dist.step<forward, colocation 1>} : tensor<4xf32>
  %2 = nn.neg %1 {dist.step = #dist.step<backward_input, colocation 1>,
     dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>} : tensor<4xf32>
  %3 = nn.neg %2 {dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  %g = dist.accumulate %3 {dist.step = #dist.step<backward_weight>,
     dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.neg %g {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>} : tensor<4xf32>
  %5 = nn.neg %4 {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  %6 = nn.neg %n {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  return
}

// -----

// What the forward pass needs is there before the backward pass.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @back_to_forward(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  // expected-error @below {{plan: is in phase forward but uses a value of phase backward_input}}
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  return
}

// -----

// Gradients of parameters feed no gradients of activations.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @weight_to_input(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.step = #dist.step<backward_weight>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  // expected-error @below {{plan: is in phase backward_input but uses a value of phase backward_weight}}
  %1 = nn.neg %0 {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @update_to_forward(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>]>} : tensor<4xf32>
  // expected-error @below {{plan: is in phase forward but uses a value of phase update}}
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>]>} : tensor<4xf32>
  return
}

// -----

// The update sees micro-batches only as sums.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @no_accumulate(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.step = #dist.step<backward_weight>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  // expected-error @below {{plan: runs once per step but uses a value of each micro-batch, expected a dist.accumulate between}}
  %1 = nn.neg %0 {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  return
}

// -----

// A sum is complete after the last micro-batch.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @sum_too_early(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{produced here}}
  %0 = dist.accumulate %x {dist.step = #dist.step<backward_weight>,
     dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{plan: is in phase backward_weight but uses a sum over micro-batches, expected update}}
  %1 = nn.neg %0 {dist.step = #dist.step<backward_weight>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  return
}

// -----

#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @accumulate_in_update(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-error @below {{plan: sums over micro-batches in phase update, which runs once per step}}
  %0 = dist.accumulate %x {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// What runs once per step sees the batch whole.
#vector_mb = #dist.sharding<{"mb"}>
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @time_in_prologue(%x: tensor<4xf32> {dist.sharding = #vector_mb}) {
  // expected-error @below {{plan: runs once per step but operand 0 has an axis in time: <{mb}>}}
  %0 = nn.neg %x {dist.step = #dist.step<prologue>, dist.plan = #dist.plan<operands = [#vector_mb], results = [#vector_mb]>} : tensor<4xf32>
  return
}

// -----

// A sum over micro-batches of what they cut: not that element of any.
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @sum_of_parts(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"mb"}>}) {
  // expected-error @below {{plan: sums over micro-batches, but dimension 0 is cut into them}}
  %0 = dist.accumulate %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"mb"}>], results = [#dist.sharding<{}>]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @sum_result(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-error @below {{plan: result is <{tp}>, expected <{}>}}
  %0 = dist.accumulate %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{"tp"}>]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// A sum over time stays partial through linear ops, until it is accumulated.
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @linear(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"mb"}>}) {
  %0 = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"mb"}>], results = [#dist.sharding<partial sum {"mb"}>]>}
     : (tensor<4xf32>) -> tensor<f32>
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#dist.sharding<partial sum {"mb"}>], results = [#dist.sharding<partial sum {"mb"}>]>} : tensor<f32>
  %2 = dist.accumulate %1 {dist.plan = #dist.plan<operands = [#dist.sharding<partial sum {"mb"}>], results = [#dist.sharding<>]>} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// Not half of the micro-batches.
dist.mesh @mesh ["tp"=2] time ["a"=2, "b"=2]
func.func @some_of_time(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"a"}>}) {
  %0 = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"a"}>], results = [#dist.sharding<partial sum {"a"}>]>}
     : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{plan: operand is partial over 2 micro-batches, expected all 4}}
  %1 = dist.accumulate %0 {dist.plan = #dist.plan<operands = [#dist.sharding<partial sum {"a"}>], results = [#dist.sharding<>]>} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// Forward values go to later stages, backward values to earlier ones.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2, "tp"=2]
func.func @forward_down(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 0 but uses a value of stage 1}}
  %1 = nn.neg %0 {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  return
}

// -----

#vector = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2, "tp"=2]
func.func @backward_up(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 1 but uses a value of stage 0}}
  %1 = nn.neg %0 {dist.step = #dist.step<backward_weight>, dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>} : tensor<4xf32>
  return
}

// -----

// An op and its gradient are in one stage.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2, "tp"=2]
func.func @colocation(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-note @below {{another op of it}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 1>, dist.step = #dist.step<forward, colocation 7>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 0, expected 1 as an op of colocation 7}}
  %1 = nn.neg %x {dist.step = #dist.step<backward_input, colocation 7>,
     dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  return
}

// -----

// Parameters change in the update.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @assign_phase(%x: tensor<4xf32> {dist.sharding = #vector}) {
  %w = nn.weight "w" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#vector]>} : tensor<4xf32>
  // expected-error @below {{plan: assigns in phase forward, expected update}}
  dist.assign %w, %x {dist.plan = #dist.plan<operands = [#vector, #vector]>} : tensor<4xf32>
  %0 = nn.neg %x {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  return
}

// -----

// Inference keeps state where it computes.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2]
func.func @state(%x: tensor<4xf32> {dist.sharding = #vector}) {
  %s = nn.state "s" {init = 0.0 : f32, dist.plan = #dist.plan<results = [#vector]>} : tensor<4xf32>
  %0 = nn.add %s, %x {dist.plan = #dist.plan<operands = [#vector, #vector], results = [#vector], stage = 1>} : tensor<4xf32>
  dist.assign %s, %0 {dist.plan = #dist.plan<operands = [#vector, #vector], stage = 1>} : tensor<4xf32>
  return
}

// -----

// A stage that only reads it would need what is computed behind it.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2]
func.func @state_of_two_stages(%x: tensor<4xf32> {dist.sharding = #vector}) {
  %s = nn.state "s" {init = 0.0 : f32, dist.plan = #dist.plan<results = [#vector]>} : tensor<4xf32>
  // expected-note @below {{read here}}
  %0 = nn.add %s, %x {dist.plan = #dist.plan<operands = [#vector, #vector], results = [#vector], stage = 0>} : tensor<4xf32>
  // expected-error @below {{plan: assigns in stage 1 what stage 0 reads, expected one stage}}
  dist.assign %s, %0 {dist.plan = #dist.plan<operands = [#vector, #vector], stage = 1>} : tensor<4xf32>
  return
}

// -----

// All samples of a step see the state of the step before.
#vector = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @state_in_parts(%x: tensor<4xf32> {dist.sharding = #vector}) {
  %s = nn.state "s" {init = 0.0 : f32, dist.plan = #dist.plan<results = [#vector]>} : tensor<4xf32>
  // expected-error @below {{plan: assigns in each of 2 micro-batches, expected one}}
  dist.assign %s, %x {dist.plan = #dist.plan<operands = [#vector, #vector]>} : tensor<4xf32>
  return
}
