// One pass over several modules keeps nothing of the one before.
// RUN: kerf-opt %s --pass-pipeline='builtin.module(builtin.module(kerf-flatten))' | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-NOT: @twice
// CHECK: func.func @f(
// CHECK-NEXT: arith.addf
// CHECK: func.func @g(
// CHECK-NEXT: arith.mulf
module @f {
  func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.addf %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
module @g {
  func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.mulf %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
