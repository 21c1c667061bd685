// RUN: kerf-opt %s --split-input-file --kerf-verify-after-partition --verify-diagnostics
// REQUIRES: kerf-opt

dist.mesh @mesh ["tp"=2]
// expected-error @below {{partition: argument 0 needs dist.sharding and dist.global_type}}
func.func @argument(%x: tensor<2xf32>) attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return
}
dist.schedule 0 {
}

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{partition: chunk is 1, expected less than 1}}
func.func @chunk() attributes {dist.part = #dist.part<stage = 0, chunk = 1, phase = forward>} {
  return
}
dist.schedule 0 {
}

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{partition: argument 0 is 'tensor<4xf32>', expected 'tensor<2xf32>' for <{tp}> of 'tensor<4xf32>'}}
func.func @local(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"tp"}>, dist.global_type = tensor<4xf32>}) {
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @reshard(%x: tensor<2xf32> {dist.sharding = #dist.sharding<{"tp"}>, dist.global_type = tensor<4xf32>}) {
  // expected-error @below {{partition: a reshard is left}}
  %0 = dist.reshard %x from <{"tp"}> to <{}> of tensor<4xf32> : tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @left_over(%x: tensor<2xf32> {dist.sharding = #dist.sharding<{"tp"}>, dist.global_type = tensor<4xf32>}) {
  // expected-error @below {{partition: dist.plan is left}}
  %0 = nn.neg %x {dist.plan = #dist.plan<results = [#dist.sharding<{"tp"}>]>} : tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @more_than_a_phase(%x: tensor<2xf32> {dist.sharding = #dist.sharding<{"tp"}>, dist.global_type = tensor<4xf32>}) {
  %0 = nn.neg %x {dist.step = #dist.step<update>} : tensor<2xf32>
  // expected-error @below {{partition: dist.step says more than a phase}}
  %1 = nn.neg %x {dist.step = #dist.step<update, colocation 1>} : tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["pp"=2] time ["mb"=2]
// expected-error @below {{partition: is sent 1 and received 1 times, expected 2 in one order}}
dist.channel 0 from 0 to 1 : tensor<2xf32>
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
  dist.send %0 channel 0 micro_batch 0 : tensor<2xf32>
}
dist.schedule 1 {
  %0 = dist.recv channel 0 micro_batch 0 : tensor<2xf32>
}

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{partition: stage 1 has no schedule}}
func.func @stage() attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  return
}

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{partition: result 0 is handed out by no stage}}
func.func private @main() -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}>})

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{partition: argument 0 accumulates result 0, expected a result of type 'tensor<2xf32>'}}
func.func @sum(%x: tensor<2xf32> {dist.from = #dist.from<accumulator 0>, dist.sharding = #dist.sharding<{"tp"}>, dist.global_type = tensor<4xf32>}) {
  return
}

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{partition: argument 0 is kept value 3, expected a function of stage 0 to keep it as 'tensor<2xf32>'}}
func.func @kept(%x: tensor<2xf32> {dist.from = #dist.from<kept 3>, dist.sharding = #dist.sharding<{"tp"}>, dist.global_type = tensor<4xf32>}) {
  return
}

// -----

// Each waits for the other before it sends.
dist.mesh @mesh ["pp"=2]
dist.channel 0 from 0 to 1 : tensor<2xf32>
dist.channel 1 from 1 to 0 : tensor<2xf32>
dist.schedule 0 {
  // expected-error @below {{partition: the schedules deadlock before this instruction}}
  %0 = dist.recv channel 1 micro_batch 0 : tensor<2xf32>
  dist.send %0 channel 0 micro_batch 0 : tensor<2xf32>
}
dist.schedule 1 {
  %0 = dist.recv channel 0 micro_batch 0 : tensor<2xf32>
  dist.send %0 channel 1 micro_batch 0 : tensor<2xf32>
}

// -----

// Each wants the slot that it sent before it takes what the other sent.
dist.mesh @mesh ["pp"=2]
dist.channel 0 from 0 to 1 : tensor<2xf32>
dist.channel 1 from 1 to 0 : tensor<2xf32>
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
  dist.send %0 channel 0 micro_batch 0 held_until 1 : tensor<2xf32>
  // expected-error @below {{partition: the schedules deadlock before this instruction}}
  %1 = dist.recv channel 1 micro_batch 0 : tensor<2xf32>
}
dist.schedule 1 {
  %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
  dist.send %0 channel 1 micro_batch 0 held_until 1 : tensor<2xf32>
  %1 = dist.recv channel 0 micro_batch 0 : tensor<2xf32>
}
