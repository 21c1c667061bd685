// RUN: kerf-opt %s --split-input-file --kerf-narrow-storage | FileCheck %s
// REQUIRES: kerf-opt

// A product of 16 bits with a bias is stored in 16 bits and widened where it is read.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = nn.add
// CHECK: %[[STORED:.*]] = nn.cast %[[SUM]] : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK: %[[READ:.*]] = nn.cast %[[STORED]]
// CHECK: nn.exp %[[READ]]
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<2x3xbf16>) -> tensor<2x4xf32> {
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xbf16>
    %b = nn.weight "b" file 0 at 24 : tensor<4xf32>
    %0 = nn.matmul %x, %w : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
    %1 = nn.cast %0 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %2 = nn.add %1, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %3 = nn.exp %2 : tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
}

// -----

// Where memory is not slow it stays wide.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = nn.add
// CHECK: nn.exp %[[SUM]]
func.func @main(%x: tensor<2x3xbf16>) -> tensor<2x4xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<3x4xbf16>
  %b = nn.weight "b" file 0 at 24 : tensor<4xf32>
  %0 = nn.matmul %x, %w : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
  %1 = nn.cast %0 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  %2 = nn.add %1, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %3 = nn.exp %2 : tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// What leaves the function stays wide, in another shape as well.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = nn.add
// CHECK-NEXT: %[[OUT:.*]] = nn.reshape %[[SUM]]
// CHECK-NEXT: return %[[OUT]]
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<2x3xbf16>) -> tensor<8xf32> {
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xbf16>
    %b = nn.weight "b" file 0 at 24 : tensor<4xf32>
    %0 = nn.matmul %x, %w : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
    %1 = nn.cast %0 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %2 = nn.add %1, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %3 = nn.reshape %2 : (tensor<2x4xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
