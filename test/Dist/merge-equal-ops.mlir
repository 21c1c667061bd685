// RUN: kerf-opt %s --pass-pipeline='builtin.module(func.func(kerf-merge-equal-ops))' | FileCheck %s
// REQUIRES: kerf-opt

// Where and when an op runs does not matter; the first stays, with its step.
// CHECK-LABEL: @steps
// CHECK-NEXT: %[[Y:.*]] = nn.relu %{{.*}} {dist.step = #backward_input_1} : tensor<2xf32>
// CHECK-NEXT: return %[[Y]], %[[Y]]
func.func @steps(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = nn.relu %x {dist.step = #dist.step<backward_input, colocation 1>} : tensor<2xf32>
  %1 = nn.relu %x {dist.plan = #dist.plan<stage = 1>} : tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// What is computed does: another operand, another property, another attribute.
// CHECK-LABEL: @different
// CHECK-COUNT-5: nn.
// CHECK-NEXT: return
func.func @different(%x: tensor<2xf32>, %y: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>, tensor<2xbf16>) {
  %0 = nn.relu %x : tensor<2xf32>
  %1 = nn.relu %y : tensor<2xf32>
  %2 = nn.neg %x : tensor<2xf32>
  %3 = nn.cast %x : (tensor<2xf32>) -> tensor<2xbf16>
  %4 = nn.cast %x {kerf.transfer_cast} : (tensor<2xf32>) -> tensor<2xbf16>
  return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>, tensor<2xbf16>
}

// What is recomputed would be held in between if it were merged with its original; two that are recomputed are one.
// CHECK-LABEL: @recomputed
// CHECK-NEXT: %[[A:.*]] = nn.relu %{{.*}} {dist.step = #forward_1} : tensor<2xf32>
// CHECK-NEXT: %[[B:.*]] = nn.relu %{{.*}} {dist.step = #backward_input_1_recomputed} : tensor<2xf32>
// CHECK-NEXT: return %[[A]], %[[B]], %[[B]]
func.func @recomputed(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = nn.relu %x {dist.step = #dist.step<forward, colocation 1>} : tensor<2xf32>
  %1 = nn.relu %x {dist.step = #dist.step<backward_input, colocation 1, recomputed>} : tensor<2xf32>
  %2 = nn.relu %x {dist.step = #dist.step<backward_input, recomputed>} : tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// What nothing uses goes.
// CHECK-LABEL: @dead
// CHECK-NEXT: return
func.func @dead(%x: tensor<2xf32>) {
  %0 = nn.relu %x : tensor<2xf32>
  return
}
