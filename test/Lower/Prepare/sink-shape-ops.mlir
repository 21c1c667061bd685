// RUN: kerf-opt %s --split-input-file --kerf-sink-shape-ops | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = nn.transpose
// CHECK-NEXT: nn.relu %[[A]]
// CHECK-NEXT: %[[B:.*]] = nn.transpose
// CHECK-NEXT: nn.neg %[[B]]
func.func @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = nn.relu %0 : tensor<3x2xf32>
  %2 = nn.neg %0 : tensor<3x2xf32>
  return %1, %2 : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Where memory is slow a widening belongs to its readers, too.
// CHECK-LABEL: func.func @main
// CHECK: nn.cast
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.neg
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = nn.cast %x : (tensor<4xbf16>) -> tensor<4xf32>
    %1 = nn.relu %0 : tensor<4xf32>
    %2 = nn.neg %0 : tensor<4xf32>
    return %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
}
