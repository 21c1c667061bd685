// Which function a stage runs when, and what comes in and goes out around it.
// RUN: kerf-opt %s --split-input-file --kerf-build-schedule | FileCheck %s
// REQUIRES: kerf-opt

// Inference: the micro-batches in order. What is the same for all of them (the
// scale) is read once, what is cut over them for each.
#cut = #dist.sharding<{"mb"}>
#whole = #dist.sharding<>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
dist.channel 0 from 0 to 1 : tensor<2xf32>
// CHECK-LABEL: dist.schedule 0 {
// CHECK-NEXT: %[[X0:.*]] = dist.input 0 micro_batch 0 :
// CHECK-NEXT: %[[S:.*]] = dist.input 1 micro_batch 0 :
// CHECK-NEXT: %[[H0:.*]] = dist.run @stage0_forward(%[[X0]], %[[S]]) micro_batch 0 :
// CHECK-NEXT: dist.send %[[H0]] channel 0 micro_batch 0 :
// CHECK-NEXT: %[[X1:.*]] = dist.input 0 micro_batch 1 :
// CHECK-NEXT: %[[H1:.*]] = dist.run @stage0_forward(%[[X1]], %[[S]]) micro_batch 1 :
// CHECK-NEXT: dist.send %[[H1]] channel 0 micro_batch 1 :
// CHECK-NEXT: }
// CHECK-LABEL: dist.schedule 1 {
// CHECK-NEXT: %[[R0:.*]] = dist.recv channel 0 micro_batch 0 :
// CHECK-NEXT: %[[Y0:.*]] = dist.run @stage1_forward(%[[R0]]) micro_batch 0 :
// CHECK-NEXT: dist.output %[[Y0]] to 0 micro_batch 0 :
// CHECK-NEXT: %[[R1:.*]] = dist.recv channel 0 micro_batch 1 :
// CHECK-NEXT: %[[Y1:.*]] = dist.run @stage1_forward(%[[R1]]) micro_batch 1 :
// CHECK-NEXT: dist.output %[[Y1]] to 0 micro_batch 1 :
// CHECK-NEXT: }
func.func private @main(tensor<4xf32> {dist.sharding = #cut}, tensor<f32> {dist.sharding = #whole})
    -> (tensor<4xf32> {dist.sharding = #cut})
func.func @stage0_forward(%x: tensor<2xf32> {dist.from = #dist.from<input 0>, dist.sharding = #cut},
                          %s: tensor<f32> {dist.from = #dist.from<input 1>, dist.sharding = #whole})
    -> (tensor<2xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #cut})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %0 = nn.mul %x, %s : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @stage1_forward(%h: tensor<2xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #cut})
    -> (tensor<2xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #cut})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  return %h : tensor<2xf32>
}

// -----

// Training: what the forward pass keeps is read by the backward pass of the same
// micro-batch; a sum over micro-batches begins with zeros and is the operand of
// the next run; the update follows.
// CHECK-LABEL: dist.schedule 0 {
// CHECK-NEXT: %[[X0:.*]] = dist.input 0 micro_batch 0 :
// CHECK-NEXT: %[[H0:.*]] = dist.run @stage0_forward(%[[X0]]) micro_batch 0 :
// CHECK-NEXT: %[[ZERO:.*]] = dist.zero :
// CHECK-NEXT: %[[SUM:.*]] = dist.run @stage0_backward(%[[H0]], %[[ZERO]]) micro_batch 0 :
// CHECK-NEXT: %[[X1:.*]] = dist.input 0 micro_batch 1 :
// CHECK-NEXT: %[[H1:.*]] = dist.run @stage0_forward(%[[X1]]) micro_batch 1 :
// CHECK-NEXT: %[[G:.*]] = dist.run @stage0_backward(%[[H1]], %[[SUM]]) micro_batch 1 :
// CHECK-NEXT: dist.run @stage0_update0(%[[G]]) micro_batch 0 :
// CHECK-NEXT: }
#cut = #dist.sharding<{"mb"}>
#whole = #dist.sharding<{}>
dist.mesh @mesh [] time ["mb"=2]
func.func private @main(tensor<4xf32> {dist.sharding = #cut})
func.func @stage0_forward(%x: tensor<2xf32> {dist.from = #dist.from<input 0>, dist.sharding = #cut})
    -> (tensor<2xf32> {dist.to = #dist.to<keep [0]>, dist.sharding = #cut})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %0 = nn.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @stage0_backward(%h: tensor<2xf32> {dist.from = #dist.from<kept 0>, dist.sharding = #cut},
                           %a: tensor<2xf32> {dist.from = #dist.from<accumulator 0>, dist.sharding = #whole})
    -> (tensor<2xf32> {dist.to = #dist.to<keep [1]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 0, phase = backward_weight>} {
  %0 = dist.accumulate %h into %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @stage0_update0(%g: tensor<2xf32> {dist.from = #dist.from<kept 1>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 0, phase = update>} {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<2xf32>
  %0 = nn.sub %w, %g : tensor<2xf32>
  dist.assign %w, %0 : tensor<2xf32>
  return
}

// -----

// "gpipe": all forward passes first. (hold-sends.mlir has "1f1b", which is taken
// where nothing is said.)
// CHECK-LABEL: dist.schedule 0 {
// CHECK: dist.run @stage0_forward({{.*}}) micro_batch 0
// CHECK-NOT: dist.run @stage0_backward
// CHECK: dist.run @stage0_forward({{.*}}) micro_batch 1
// CHECK: dist.run @stage0_backward({{.*}}) micro_batch
// CHECK: dist.run @stage0_backward({{.*}}) micro_batch
// CHECK-NEXT: }
#cut = #dist.sharding<{"mb"}>
#whole = #dist.sharding<{}>
module attributes {dist.schedule_kind = #dist<schedule_kind gpipe>} {
dist.mesh @mesh [] time ["mb"=2]
func.func private @main(tensor<4xf32> {dist.sharding = #cut})
func.func @stage0_forward(%x: tensor<2xf32> {dist.from = #dist.from<input 0>, dist.sharding = #cut})
    -> (tensor<2xf32> {dist.to = #dist.to<keep [0]>, dist.sharding = #cut})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %0 = nn.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @stage0_backward(%h: tensor<2xf32> {dist.from = #dist.from<kept 0>, dist.sharding = #cut},
                           %a: tensor<2xf32> {dist.from = #dist.from<accumulator 0>, dist.sharding = #whole})
    -> (tensor<2xf32> {dist.to = #dist.to<keep [1]>, dist.sharding = #whole})
    attributes {dist.part = #dist.part<stage = 0, phase = backward_weight>} {
  %0 = dist.accumulate %h into %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
}
