// RUN: kerf-opt %s --kerf-plan="devices=4 machine=h100-8 mesh=tp=4" | FileCheck %s
// REQUIRES: kerf-opt

// A call costs what its callee's ops do, so planning cuts it: the products of eight turns take far longer than to gather
// the columns that each device makes, for a function of which nothing is known.

// CHECK-DAG: #[[COLUMNS:[^ ]*]] = #dist.sharding<{}, {"tp"}>
// CHECK-DAG: #[[WHOLE:[^ ]*]] = #dist.sharding<{}, {}>
// CHECK-DAG: #[[PLAN:[^ ]*]] = #dist.plan<operands = [#[[WHOLE]], #[[COLUMNS]]], results = [#[[COLUMNS]]]>
// CHECK: call @turns({{.*}}) {dist.plan = #[[PLAN]], no_inline}
func.func @columns(%w: tensor<2048x2048xf32>, %x: tensor<2048x4096xf32>) -> tensor<f32> {
  %0 = call @turns(%w, %x) {no_inline} : (tensor<2048x2048xf32>, tensor<2048x4096xf32>) -> tensor<2048x4096xf32>
  %1 = call @other(%0) : (tensor<2048x4096xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @other(tensor<2048x4096xf32>) -> tensor<f32>
func.func private @turns(%w: tensor<2048x2048xf32>, %x: tensor<2048x4096xf32>) -> tensor<2048x4096xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : tensor<2048x4096xf32>
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %x) -> (tensor<2048x4096xf32>) {
    %0 = linalg.matmul ins(%w, %a : tensor<2048x2048xf32>, tensor<2048x4096xf32>) outs(%zero : tensor<2048x4096xf32>)
        -> tensor<2048x4096xf32>
    %1 = math.tanh %0 : tensor<2048x4096xf32>
    scf.yield %1 : tensor<2048x4096xf32>
  }
  return %r : tensor<2048x4096xf32>
}
