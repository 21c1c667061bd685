// RUN: kerf-opt %s --kerf-hold-sends | FileCheck %s
// REQUIRES: kerf-opt

// Two stages, three micro-batches, 1F1B. What stage 0 sends stays until a gradient
// has come that stage 1 made after taking it (instruction 5 is the first receive;
// it answers micro-batch 0); the last gradient stays to the end.
// CHECK-LABEL: dist.schedule 0 {
// CHECK-NEXT: dist.input 0 micro_batch 0
// CHECK-NEXT: dist.run @stage0_forward
// CHECK-NEXT: dist.send {{.*}} channel 0 micro_batch 0 held_until 6
// CHECK-NEXT: dist.input 0 micro_batch 1
// CHECK-NEXT: dist.run @stage0_forward
// CHECK-NEXT: dist.send {{.*}} channel 0 micro_batch 1 held_until 11
// CHECK-NEXT: dist.recv channel 1 micro_batch 0
// CHECK-NEXT: dist.run @stage0_backward
// CHECK-NEXT: dist.input 0 micro_batch 2
// CHECK-NEXT: dist.run @stage0_forward
// CHECK-NEXT: dist.send {{.*}} channel 0 micro_batch 2 held_until 13
// CHECK-NEXT: dist.recv channel 1 micro_batch 1
// CHECK-NEXT: dist.run @stage0_backward
// CHECK-NEXT: dist.recv channel 1 micro_batch 2
// CHECK-NEXT: dist.run @stage0_backward
// CHECK-LABEL: dist.schedule 1 {
// CHECK-NEXT: %[[H:.*]] = dist.recv channel 0 micro_batch 0
// CHECK-NEXT: %[[K:.*]] = dist.run @stage1_forward(%[[H]])
// CHECK-NEXT: dist.run @stage1_backward(%[[K]]) micro_batch 0
// CHECK-NEXT: dist.send {{.*}} channel 1 micro_batch 0 held_until 8
dist.mesh @mesh ["pp"=2] time ["mb"=3]
dist.channel 0 from 0 to 1 : tensor<2xf32>
dist.channel 1 from 1 to 0 : tensor<2xf32>
func.func private @main(tensor<6xf32> {dist.sharding = #dist.sharding<{"mb"}>})
func.func @stage0_forward(%arg0: tensor<2xf32> {dist.from = #dist.from<input 0>, dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>})
    -> (tensor<2xf32> {dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>, dist.to = #dist.to<send [0]>})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return %arg0 : tensor<2xf32>
}
func.func @stage0_backward(%arg0: tensor<2xf32> {dist.from = #dist.from<recv 1>, dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>})
    attributes {dist.part = #dist.part<stage = 0, phase = backward_input>} {
  return
}
func.func @stage1_forward(%arg0: tensor<2xf32> {dist.from = #dist.from<recv 0>, dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>})
    -> (tensor<2xf32> {dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>, dist.to = #dist.to<keep [0]>})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  return %arg0 : tensor<2xf32>
}
func.func @stage1_backward(%arg0: tensor<2xf32> {dist.from = #dist.from<kept 0>, dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>})
    -> (tensor<2xf32> {dist.global_type = tensor<6xf32>, dist.sharding = #dist.sharding<{"mb"}>, dist.to = #dist.to<send [1]>})
    attributes {dist.part = #dist.part<stage = 1, phase = backward_input>} {
  return %arg0 : tensor<2xf32>
}
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
  %1 = dist.run @stage0_forward(%0) micro_batch 0 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %1 channel 0 micro_batch 0 : tensor<2xf32>
  %2 = dist.input 0 micro_batch 1 : tensor<2xf32>
  %3 = dist.run @stage0_forward(%2) micro_batch 1 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %3 channel 0 micro_batch 1 : tensor<2xf32>
  %4 = dist.recv channel 1 micro_batch 0 : tensor<2xf32>
  dist.run @stage0_backward(%4) micro_batch 0 : (tensor<2xf32>) -> ()
  %5 = dist.input 0 micro_batch 2 : tensor<2xf32>
  %6 = dist.run @stage0_forward(%5) micro_batch 2 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %6 channel 0 micro_batch 2 : tensor<2xf32>
  %7 = dist.recv channel 1 micro_batch 1 : tensor<2xf32>
  dist.run @stage0_backward(%7) micro_batch 1 : (tensor<2xf32>) -> ()
  %8 = dist.recv channel 1 micro_batch 2 : tensor<2xf32>
  dist.run @stage0_backward(%8) micro_batch 2 : (tensor<2xf32>) -> ()
}
dist.schedule 1 {
  %0 = dist.recv channel 0 micro_batch 0 : tensor<2xf32>
  %1 = dist.run @stage1_forward(%0) micro_batch 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = dist.run @stage1_backward(%1) micro_batch 0 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %2 channel 1 micro_batch 0 : tensor<2xf32>
  %3 = dist.recv channel 0 micro_batch 1 : tensor<2xf32>
  %4 = dist.run @stage1_forward(%3) micro_batch 1 : (tensor<2xf32>) -> tensor<2xf32>
  %5 = dist.run @stage1_backward(%4) micro_batch 1 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %5 channel 1 micro_batch 1 : tensor<2xf32>
  %6 = dist.recv channel 0 micro_batch 2 : tensor<2xf32>
  %7 = dist.run @stage1_forward(%6) micro_batch 2 : (tensor<2xf32>) -> tensor<2xf32>
  %8 = dist.run @stage1_backward(%7) micro_batch 2 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %8 channel 1 micro_batch 2 : tensor<2xf32>
}
