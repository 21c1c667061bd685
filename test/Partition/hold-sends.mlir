// RUN: kerf-opt %s --build-schedule --hold-sends --verify-after-partition | FileCheck %s
// REQUIRES: kerf-opt

// Two stages, three micro-batches, 1F1B. What stage 0 sends stays until a gradient
// has come that stage 1 made after taking it (instruction 5 is the first receive;
// it answers micro-batch 0); the last gradient stays to the end.
dist.mesh @mesh ["pp"=2] time ["mb"=3]
dist.channel 0 from 0 to 1 : tensor<2xf32>
dist.channel 1 from 1 to 0 : tensor<2xf32>
func.func private @main(tensor<6xf32> {dist.sharding = #dist.sharding<{"mb"}>})
func.func @stage0_forward(%x: tensor<2xf32> {dist.from = #dist.from<input 0>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    -> (tensor<2xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return %x : tensor<2xf32>
}
func.func @stage0_backward(%d: tensor<2xf32> {dist.from = #dist.from<recv 1>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    attributes {dist.part = #dist.part<stage = 0, phase = backward_input>} {
  return
}
func.func @stage1_forward(%h: tensor<2xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    -> (tensor<2xf32> {dist.to = #dist.to<keep [0]>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  return %h : tensor<2xf32>
}
func.func @stage1_backward(%h: tensor<2xf32> {dist.from = #dist.from<kept 0>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    -> (tensor<2xf32> {dist.to = #dist.to<send [1]>, dist.sharding = #dist.sharding<{"mb"}>, dist.global_type = tensor<6xf32>})
    attributes {dist.part = #dist.part<stage = 1, phase = backward_input>} {
  return %h : tensor<2xf32>
}
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
