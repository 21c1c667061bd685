// RUN: kerf-opt %s --kerf-separate-programs | FileCheck %s
// REQUIRES: kerf-opt

// What no program uses stays.
// CHECK: func.func private @unused()
// CHECK-NOT: @helper
// CHECK-NOT: dist.mesh
func.func private @unused()
dist.mesh @mesh ["tp"=2]

// CHECK: module @f {
// CHECK-NEXT: dist.mesh @mesh ["tp"=2]
// CHECK-NEXT: func.func private @inner
// CHECK: func.func private @helper
// CHECK: func.func @f(
// CHECK: module @g {
// CHECK-NEXT: dist.mesh @mesh ["tp"=2]
// CHECK-NEXT: func.func private @inner
// CHECK: func.func private @helper
// CHECK: func.func private @f(
// CHECK: func.func @g(
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @helper(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// A public function that another one calls is a private one there.
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
