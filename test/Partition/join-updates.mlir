// RUN: kerf-opt %s --kerf-join-updates --split-input-file | FileCheck %s
// REQUIRES: kerf-opt

// The sum over devices stands behind its gradient, in one function.
// CHECK-LABEL: func.func @stage0_backward_update0(
// CHECK: %[[G:.*]] = nn.relu
// CHECK-NEXT: %[[S:.*]] = dist.all_reduce %[[G]]
// CHECK-NEXT: return %[[S]]
// CHECK-NOT: func.func @stage0_backward(
// CHECK-LABEL: dist.schedule 0 {
// CHECK-NEXT: %[[X:.*]] = dist.input 0
// CHECK-NEXT: %[[R:.*]] = dist.run @stage0_backward_update0(%[[X]]) micro_batch 0
// CHECK-NEXT: dist.output %[[R]] to 0
#whole = #dist.sharding<{}>
#part = #dist.sharding<{}, partial sum {"dp"}>
dist.mesh @mesh ["dp"=2]
func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
func.func @stage0_backward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
    -> (tensor<4xf32> {dist.sharding = #part, dist.to = #dist.to<keep [0]>})
    attributes {dist.part = #dist.part<stage = 0, phase = backward_input>} {
  %0 = nn.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @stage0_update0(%g: tensor<4xf32> {dist.from = #dist.from<kept 0>, dist.sharding = #part})
    -> (tensor<4xf32> {dist.sharding = #whole, dist.to = #dist.to<output [0]>})
    attributes {dist.part = #dist.part<stage = 0, phase = update>} {
  %0 = dist.all_reduce %g sum ["dp"] purpose gradient : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
  %1 = dist.run @stage0_backward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dist.run @stage0_update0(%1) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.output %2 to 0 micro_batch 0 : tensor<4xf32>
}

// -----

// A stage that hands a gradient on would do so after its update: it keeps two.
// CHECK-LABEL: func.func @stage1_backward(
// CHECK-LABEL: func.func @stage1_update0(
// CHECK-LABEL: dist.schedule 1 {
// CHECK: dist.run @stage1_backward
// CHECK-NEXT: dist.send
// CHECK-NEXT: dist.run @stage1_update0
#whole = #dist.sharding<{}>
#part = #dist.sharding<{}, partial sum {"dp"}>
dist.mesh @mesh ["pp"=2, "dp"=2]
dist.channel 0 from 1 to 0 : tensor<4xf32>
func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
func.func @stage1_backward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
    -> (tensor<4xf32> {dist.sharding = #part, dist.to = #dist.to<send [0], keep [0]>})
    attributes {dist.part = #dist.part<stage = 1, phase = backward_input>} {
  %0 = nn.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @stage1_update0(%g: tensor<4xf32> {dist.from = #dist.from<kept 0>, dist.sharding = #part})
    -> (tensor<4xf32> {dist.sharding = #whole, dist.to = #dist.to<output [0]>})
    attributes {dist.part = #dist.part<stage = 1, phase = update>} {
  %0 = dist.all_reduce %g sum ["dp"] purpose gradient : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
dist.schedule 1 {
  %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
  %1 = dist.run @stage1_backward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.send %1 channel 0 micro_batch 0 : tensor<4xf32>
  %2 = dist.run @stage1_update0(%1) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.output %2 to 0 micro_batch 0 : tensor<4xf32>
}
