// RUN: kerf-opt %s --split-input-file --verify-diagnostics --kerf-dist-to-shard
// REQUIRES: kerf-opt

// What shard cannot say is an error at what says it.

// expected-error @below {{the module has no dist.mesh}}
module {
}

// -----

// expected-error @below {{has axes in time, which shard does not have}}
dist.mesh @mesh ["tp"=2] time ["mb"=2]

// -----

// expected-error @below {{has stages, which shard does not have}}
dist.mesh @mesh ["pp"=2, "tp"=2]

// -----

dist.mesh @mesh ["tp"=4]
// expected-error @below {{argument 0 names tp:(1)2, a part of an axis, where shard names axes}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"tp":(1)2}>}) {
  return
}

// -----

dist.mesh @mesh ["tp"=4]
// expected-error @below {{argument 0: dimension 0 has 5 elements in 4 parts of 2, where shard-partition takes parts that fill it}}
func.func @f(%x: tensor<5xf32> {dist.sharding = #dist.sharding<{"tp"}>}) {
  return
}

// -----

dist.mesh @mesh ["tp"=8]
// expected-error @below {{argument 0: dimension 0 has 768 elements in 8 parts of 128, where shard-partition takes parts that fill it}}
func.func @f(%x: tensor<768xf32> {dist.sharding = #dist.sharding<{"tp"}:128>}) {
  return
}

// -----

// A sum that is used in parts.
#part = #dist.sharding<{}, partial sum {"tp"}>
dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{operand 0 is a partial sum over {tp}, which shard cannot say}}
  %0 = arith.addf %x, %y {dist.plan = #dist.plan<operands = [#part, #part]>} : tensor<4xf32>
  return
}

// -----

// shard-partition would drop the sum over tp.
#x = #dist.sharding<{}, {}, {"tp"}>
#w = #dist.sharding<{}, {"tp"}, {}>
#z = #dist.sharding<{}>
#part = #dist.sharding<{}, {}, {}, partial sum {"tp"}>
dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<2x4x8xf32>, %w: tensor<2x8x6xf32>, %z: tensor<1xf32>) -> tensor<2x4x6xf32> {
  // expected-error @below {{leaves parts of a sum, which shard-partition does not add up for this op}}
  %r = tosa.matmul %x, %w, %z, %z {dist.plan = #dist.plan<operands = [#x, #w, #z, #z], results = [#part]>}
     : (tensor<2x4x8xf32>, tensor<2x8x6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x4x6xf32>
  return %r : tensor<2x4x6xf32>
}

// -----

#whole = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{is in a stage, which shard does not have}}
  %0 = arith.negf %x {dist.plan = #dist.plan<operands = [#whole], results = [#whole], stage = 0>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{has dist.step, which shard cannot say}}
  %0 = arith.negf %x {dist.step = #dist.step<update>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{argument 0 has dist.priority, which shard cannot say}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"tp"}>, dist.priority = 1}) {
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{is on local types, expected kerf-lower-reshards to have made collectives of it}}
  %0 = dist.reshard %x from <{}> to <{"tp"}> of tensor<4xf32> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=4]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{the group names tp:(1)2, a part of an axis, where shard names axes}}
  %0 = dist.all_reduce %x sum ["tp":(1)2] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<3xf32>) {
  // expected-error @below {{dimension 0 has 5 elements in 2 parts of 3, where shard has parts that fill it}}
  %0 = dist.all_gather %x ["tp"] dim 0 : tensor<3xf32> -> tensor<5xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<5xf32>) {
  // expected-error @below {{dimension 0 has 5 elements in 2 parts of 3, where shard has parts that fill it}}
  %0 = dist.all_slice %x ["tp"] dim 0 : tensor<5xf32> -> tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<3xf32>) {
  // expected-error @below {{is only started, which shard cannot say}}
  %0 = dist.all_reduce %x sum ["tp"] : tensor<3xf32> -> !dist.pending<tensor<3xf32>>
  %1 = dist.wait %0 : !dist.pending<tensor<3xf32>>
  return
}

// -----

dist.mesh @mesh ["tp"=3]
func.func @f(%x: tensor<3xf32>) {
  // expected-error @below {{is no rotation along one axis, as shard's shift is}}
  %0 = dist.permute %x ["tp"] pairs [0, 1, 1, 0, 2, 2] : tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=3]
func.func @f(%x: tensor<3xf32>) {
  // expected-error @below {{is no rotation along one axis, as shard's shift is}}
  %0 = dist.permute %x ["tp"] pairs [0, 1, 1, 2] : tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @f(%x: tensor<3xf32>) {
  // expected-error @below {{has no counterpart in shard}}
  %0 = dist.mask %x dim 0 size 5 over ["tp"] fill 0.0 : f32 : tensor<3xf32>
  return
}

// -----

#whole = #dist.sharding<{}>
dist.mesh @mesh ["tp"=2]
func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
func.func @part(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
    -> (tensor<4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return %x : tensor<4xf32>
}
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
  // expected-note @below {{the first one}}
  %1 = dist.run @part(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{is a second run of a stage, expected one that shard's single function can be}}
  %2 = dist.run @part(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.output %1 to 0 micro_batch 0 : tensor<4xf32>
}
