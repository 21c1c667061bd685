// A parameter's part of a bucket of gradients is a view that updates share.
// RUN: kerf-opt %s --pass-pipeline='builtin.module(func.func(kerf-merge-update-views))' | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[VIEW:.*]] = nn.slice %arg0 from [16]
// CHECK: nn.relu %[[VIEW]] {exec.update}
// CHECK-NOT: nn.slice %arg0 from [16]
// CHECK: %[[RESHAPED:.*]] = nn.reshape %[[VIEW]]
// CHECK: nn.exp %[[RESHAPED]] {exec.update}
// What no update reads stays with its reader, and so does another part.
// CHECK: %[[OWN:.*]] = nn.slice %arg0 from [16]
// CHECK: nn.neg %[[OWN]]
// CHECK: %[[OTHER:.*]] = nn.slice %arg0 from [0]
// CHECK: nn.abs %[[OTHER]] {exec.update}
func.func @main(%x: tensor<32xf32>) -> (tensor<16xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<16xf32>) {
  %0 = nn.slice %x from [16] : (tensor<32xf32>) -> tensor<16xf32>
  %1 = nn.relu %0 {exec.update} : tensor<16xf32>
  %2 = nn.slice %x from [16] : (tensor<32xf32>) -> tensor<16xf32>
  %3 = nn.reshape %2 : (tensor<16xf32>) -> tensor<4x4xf32>
  %4 = nn.exp %3 {exec.update} : tensor<4x4xf32>
  %5 = nn.slice %x from [16] : (tensor<32xf32>) -> tensor<16xf32>
  %6 = nn.neg %5 : tensor<16xf32>
  %7 = nn.slice %x from [0] : (tensor<32xf32>) -> tensor<16xf32>
  %8 = nn.abs %7 {exec.update} : tensor<16xf32>
  return %1, %4, %6, %8 : tensor<16xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<16xf32>
}
