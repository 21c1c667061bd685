// What the steps of a loop read of a product lies together, and what they concatenate.
// RUN: kerf-opt %s --split-input-file --kerf-store-slices-together | FileCheck %s
// REQUIRES: kerf-opt

// Steps along the second dimension, behind the bias: each slice of the transpose
// is contiguous.
// CHECK-LABEL: func.func @slices
// CHECK: %[[SUM:.*]] = nn.add
// CHECK-NEXT: %[[STORED:.*]] = nn.transpose %[[SUM]] perm [1, 0, 2] {exec.stored}
// CHECK-NEXT: %[[S0:.*]] = nn.slice %[[STORED]] from [0, 0, 0] : (tensor<3x2x4xf32>) -> tensor<1x2x4xf32>
// CHECK-NEXT: %[[R0:.*]] = nn.reshape %[[S0]] : (tensor<1x2x4xf32>) -> tensor<2x1x4xf32>
// CHECK-NEXT: nn.tanh %[[R0]]
// CHECK-NEXT: %[[S2:.*]] = nn.slice %[[STORED]] from [2, 0, 0]
// CHECK-NEXT: %[[R2:.*]] = nn.reshape %[[S2]]
// CHECK-NEXT: nn.relu %[[R2]]
func.func @slices(%x: tensor<2x3x5xf32>, %w: tensor<5x4xf32>, %b: tensor<4xf32>) -> (tensor<2x1x4xf32>, tensor<2x1x4xf32>) {
  %0 = nn.matmul %x, %w : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  %1 = nn.add %0, %b : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %2 = nn.slice %1 from [0, 0, 0] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %3 = nn.tanh %2 : tensor<2x1x4xf32>
  %4 = nn.slice %1 from [0, 2, 0] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %5 = nn.relu %4 : tensor<2x1x4xf32>
  return %3, %5 : tensor<2x1x4xf32>, tensor<2x1x4xf32>
}

// -----

// Slices of the first dimension are contiguous as they are; one that leaves out a
// part of another dimension, or another reader, wants the product as it is.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @others(%x: tensor<2x3x5xf32>, %w: tensor<5x4xf32>) -> (tensor<1x3x4xf32>, tensor<1x3x4xf32>, tensor<2x1x4xf32>,
    tensor<2x1x2xf32>, tensor<2x1x4xf32>, tensor<2x3x4xf32>) {
  %0 = nn.matmul %x, %w : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  %1 = nn.slice %0 from [0, 0, 0] : (tensor<2x3x4xf32>) -> tensor<1x3x4xf32>
  %2 = nn.slice %0 from [1, 0, 0] : (tensor<2x3x4xf32>) -> tensor<1x3x4xf32>
  %3 = nn.tanh %x : tensor<2x3x5xf32>
  %4 = nn.matmul %3, %w : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  %5 = nn.slice %4 from [0, 0, 0] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %6 = nn.slice %4 from [0, 1, 2] : (tensor<2x3x4xf32>) -> tensor<2x1x2xf32>
  %7 = nn.relu %x : tensor<2x3x5xf32>
  %8 = nn.matmul %7, %w : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  %9 = nn.slice %8 from [0, 0, 0] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  return %1, %2, %5, %6, %9, %8 : tensor<1x3x4xf32>, tensor<1x3x4xf32>, tensor<2x1x4xf32>, tensor<2x1x2xf32>, tensor<2x1x4xf32>,
    tensor<2x3x4xf32>
}

// -----

// More parts than one kernel should copy, one element of the second dimension each.
// CHECK-LABEL: func.func @parts
// CHECK: nn.reshape %{{.*}} : (tensor<2x1x4xf32>) -> tensor<1x2x4xf32>
// CHECK: %[[FRONT:.*]] = nn.concat {{.*}} dim 0
// CHECK-SAME: -> tensor<17x2x4xf32>
// CHECK: %[[BACK:.*]] = nn.transpose %[[FRONT]] perm [1, 0, 2] : (tensor<17x2x4xf32>) -> tensor<2x17x4xf32>
// CHECK: return %[[BACK]]
func.func @parts(%x: tensor<2x1x4xf32>) -> tensor<2x17x4xf32> {
  %0 = nn.concat %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x dim 1
    : (tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>,
       tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>,
       tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>) -> tensor<2x17x4xf32>
  return %0 : tensor<2x17x4xf32>
}

// -----

// A few parts are one kernel.
// CHECK-LABEL: func.func @few
// CHECK: nn.concat {{.*}} dim 1
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @few(%x: tensor<2x1x4xf32>) -> tensor<2x2x4xf32> {
  %0 = nn.concat %x, %x dim 1 : (tensor<2x1x4xf32>, tensor<2x1x4xf32>) -> tensor<2x2x4xf32>
  return %0 : tensor<2x2x4xf32>
}
