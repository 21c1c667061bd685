// RUN: kerf-opt %s --kerf-erase-dead-ops | FileCheck %s
// REQUIRES: kerf-opt

// Backwards, so that what only dead ops read goes as well.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32>
  %1 = nn.neg %0 : tensor<4xf32>
  return %x : tensor<4xf32>
}
