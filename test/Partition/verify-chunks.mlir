// RUN: kerf-opt %s --split-input-file --kerf-verify-plan --verify-diagnostics
// REQUIRES: kerf-opt

// Chunk 0 of both stages, then chunk 1 of both; back the other way: nothing to say. Prologue and update may be
// anywhere.
#v = #dist.sharding<{}>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @right(%x: tensor<4xf32> {dist.sharding = #v}) {
  %n = nn.neg %x {dist.step = #dist.step<prologue>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1, chunk = 1>} : tensor<4xf32>
  %0 = nn.neg %n {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0>} : tensor<4xf32>
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1>} : tensor<4xf32>
  %2 = nn.neg %1 {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 1>} : tensor<4xf32>
  %3 = nn.neg %2 {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1, chunk = 1>} : tensor<4xf32>
  %4 = nn.neg %3 {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1, chunk = 1>} : tensor<4xf32>
  %5 = nn.neg %4 {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 1>} : tensor<4xf32>
  %6 = nn.neg %5 {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1>} : tensor<4xf32>
  return
}
}

// -----

#v = #dist.sharding<{}>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @chunks_out_of_order(%x: tensor<4xf32> {dist.sharding = #v}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 1>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 1, chunk 0 but uses a value of stage 0, chunk 1}}
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1>} : tensor<4xf32>
  // expected-note @below {{produced here}}
  %2 = nn.neg %x {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 1>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 0, chunk 1 but uses a value of stage 1, chunk 0}}
  %3 = nn.neg %2 {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 1>} : tensor<4xf32>
  return
}
}

// -----

// Forward and backward of a layer are in one chunk.
#v = #dist.sharding<{}>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @colocation(%x: tensor<4xf32> {dist.sharding = #v}) {
  // expected-note @below {{another op of it}}
  %0 = nn.neg %x {dist.step = #dist.step<forward, colocation 3>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 1>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 0, chunk 0, expected 0, chunk 1 as an op of colocation 3}}
  %1 = nn.neg %0 {dist.step = #dist.step<backward_input, colocation 3>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0>} : tensor<4xf32>
  return
}
}

// -----

#v = #dist.sharding<{}>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @too_many(%x: tensor<4xf32> {dist.sharding = #v}) {
  // expected-error @below {{plan: chunk is 2, expected less than 2}}
  %0 = nn.neg %x {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 2>} : tensor<4xf32>
  return
}
}

// -----

// Without dist.chunks a stage has one.
#v = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @unsaid(%x: tensor<4xf32> {dist.sharding = #v}) {
  // expected-error @below {{plan: chunk is 1, expected less than 1}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0, chunk = 1>} : tensor<4xf32>
  return
}

// -----

module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind gpipe>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
// expected-error @below {{plan: dist.chunks is 2, expected dist.schedule_kind interleaved}}
func.func @main(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  return
}
}

// -----

module attributes {dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
// expected-error @below {{plan: the schedule is interleaved, expected dist.chunks of at least 2}}
func.func @main(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  return
}
}

// -----

module attributes {dist.chunks = 3, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["dp"=2] time ["mb"=2]
// expected-error @below {{plan: 3 chunks in each stage, expected the stage axis "pp" in the mesh}}
func.func @main(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  return
}
}

// -----

module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
// expected-error @below {{plan: the schedule is interleaved, expected a step of training}}
func.func @main(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  return
}
}

// -----

#v = #dist.sharding<{}>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=3]
// expected-error @below {{plan: 3 micro-batches, expected a multiple of the 2 stages, as the schedule is interleaved}}
func.func @main(%x: tensor<6xf32> {dist.sharding = #v}) {
  %0 = nn.neg %x {dist.step = #dist.step<backward_input>, dist.plan = #dist.plan<operands = [#v], results = [#v], stage = 0>} : tensor<6xf32>
  return
}
}
