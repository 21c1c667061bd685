// RUN: kerf-opt %s --split-input-file --kerf-verify-after-autodiff --verify-diagnostics
// REQUIRES: kerf-opt

// Fine.
func.func @main(%x: tensor<f32> {kerf.name = "x"}, %lr: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.state "w" {init = 1.0 : f32} : tensor<f32>
  %h = nn.mul %x, %w {dist.step = #dist.step<forward, colocation 0>} : tensor<f32>
  %l = dist.accumulate %h {dist.step = #dist.step<forward, colocation 0>} : (tensor<f32>) -> tensor<f32>
  %g = dist.accumulate %x {dist.step = #dist.step<backward_weight, colocation 0>} : (tensor<f32>) -> tensor<f32>
  %n = nn.mul %g, %lr {dist.step = #dist.step<update, colocation 0>} : tensor<f32>
  dist.assign %w, %n {dist.step = #dist.step<update, colocation 0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

// expected-error @below {{the first result is not loss}}
func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "y"}) {
  return %x : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  // expected-error @below {{has no colocation}}
  %h = nn.neg %x : tensor<f32>
  return %h : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %h = nn.neg %x {dist.step = #dist.step<forward, colocation 1>} : tensor<f32>
  // expected-error @below {{colocation is 1 after 1, expected numbers that ascend in the forward}}
  %y = nn.neg %h {dist.step = #dist.step<forward, colocation 1>} : tensor<f32>
  %l = dist.accumulate %y {dist.step = #dist.step<forward, colocation 1>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %h = nn.neg %x {dist.step = #dist.step<forward, colocation 0>} : tensor<f32>
  // expected-error @below {{a result uses a value of phase forward that no dist.accumulate has summed}}
  return %h : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.state "w" {init = 1.0 : f32} : tensor<f32>
  %h = nn.neg %x {dist.step = #dist.step<forward, colocation 0>} : tensor<f32>
  %l = dist.accumulate %h {dist.step = #dist.step<forward, colocation 0>} : (tensor<f32>) -> tensor<f32>
  // expected-error @below {{phase update uses a value of phase forward that no dist.accumulate has summed}}
  dist.assign %w, %h {dist.step = #dist.step<update, colocation 0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %h = nn.neg %x {dist.step = #dist.step<backward_weight, colocation 0>} : tensor<f32>
  // expected-error @below {{phase backward_input uses a value of phase backward_weight}}
  %y = nn.neg %h {dist.step = #dist.step<backward_input, colocation 0>} : tensor<f32>
  %l = dist.accumulate %y {dist.step = #dist.step<backward_input, colocation 0>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %l = dist.accumulate %x {dist.step = #dist.step<forward, colocation 0>} : (tensor<f32>) -> tensor<f32>
  // expected-error @below {{phase forward uses a sum over micro-batches}}
  %y = nn.neg %l {dist.step = #dist.step<forward, colocation 0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  // expected-error @below {{source 'w' is mutable and never assigned}}
  %w = nn.state "w" {init = 1.0 : f32} : tensor<f32>
  %l = dist.accumulate %x {dist.step = #dist.step<forward, colocation 0>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<f32>
  // expected-error @below {{source 'w' stands twice}}
  %v = nn.weight "w" file 0 at 0 : tensor<f32>
  %l = dist.accumulate %x {dist.step = #dist.step<forward, colocation 0>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.state "w" {init = 1.0 : f32} : tensor<f32>
  %h = nn.mul %x, %w {dist.step = #dist.step<forward, colocation 0>} : tensor<f32>
  %y = nn.mul %h, %w {dist.step = #dist.step<forward, colocation 1>} : tensor<f32>
  %l = dist.accumulate %y {dist.step = #dist.step<forward, colocation 1>} : (tensor<f32>) -> tensor<f32>
  // expected-error @below {{colocation is 1, expected 0, the least of the users of what is assigned}}
  dist.assign %w, %l {dist.step = #dist.step<update, colocation 1>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.state "w" {init = 1.0 : f32} : tensor<f32>
  %l = dist.accumulate %x {dist.step = #dist.step<forward, colocation 0>} : (tensor<f32>) -> tensor<f32>
  // expected-error @below {{dist.assign has phase forward, expected update}}
  dist.assign %w, %l {dist.step = #dist.step<forward, colocation 0>} : tensor<f32>
  return %l : tensor<f32>
}
