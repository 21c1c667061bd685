// RUN: kerf-opt %s --split-input-file --kerf-cancel-casts | FileCheck %s
// REQUIRES: kerf-opt

// A widening that is rounded back, behind an op that moves elements. What nobody reads any more is gone: passes behind
// this one ask what the only reader of a value is.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[T:.*]] = nn.transpose %{{.*}} : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
// CHECK-NEXT: return %[[T]]
func.func @main(%x: tensor<2x3xbf16>) -> tensor<3x2xbf16> {
  %0 = nn.cast %x : (tensor<2x3xbf16>) -> tensor<2x3xf32>
  %1 = nn.transpose %0 perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = nn.cast %1 : (tensor<3x2xf32>) -> tensor<3x2xbf16>
  return %2 : tensor<3x2xbf16>
}

// -----

// A rounding that somebody asked for stays, one for the way between devices goes.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK: %[[ROUNDED:.*]] = nn.cast %[[X]] : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK: %[[WIDE:.*]] = nn.cast %[[ROUNDED]]
// CHECK: return %[[WIDE]], %[[X]]
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.cast %x : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = nn.cast %0 : (tensor<4xbf16>) -> tensor<4xf32>
  %2 = nn.cast %x {kerf.transfer_cast} : (tensor<4xf32>) -> tensor<4xbf16>
  %3 = nn.cast %2 : (tensor<4xbf16>) -> tensor<4xf32>
  return %1, %3 : tensor<4xf32>, tensor<4xf32>
}
