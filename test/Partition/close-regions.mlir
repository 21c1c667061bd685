// RUN: kerf-opt %s --kerf-close-regions | FileCheck %s
// RUN: kerf-opt %s --pass-pipeline="builtin.module(kerf-partition)" | FileCheck %s --check-prefix=LOCAL
// REQUIRES: kerf-opt

// What canonicalization took out of a body comes back: a constant, and an index
// that follows from one. Of the tensor outside, which has a plan, the body gets
// a copy without one.
// CHECK-LABEL: func.func @f
// CHECK-NEXT: %[[KEPT:.*]] = arith.constant {dist.plan = {{.*}}} 2.0
// CHECK-NEXT: linalg.generic
// CHECK: ^bb0
// CHECK-DAG: %[[HALF:.*]] = arith.constant 5.0{{.*}} : f32
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2.0{{.*}} : f32
// CHECK: %[[M:.*]] = arith.mulf %{{.*}}, %[[HALF]]
// CHECK: arith.addf %[[M]], %[[TWO]]
// CHECK: linalg.fill {{.*}} ins(%[[KEPT]] : f32)
// LOCAL: linalg.generic {{.*}} outs(%arg0 : tensor<4xf32>)
#cut = #dist.sharding<{"a"}>
#s = #dist.sharding<>
#map = affine_map<(i) -> (i)>
dist.mesh @mesh ["a"=2]
func.func @f(%x: tensor<8xf32> {dist.sharding = #cut}) -> (tensor<8xf32> {dist.sharding = #cut}) {
  %half = arith.constant 0.5 : f32
  %two = arith.constant {dist.plan = #dist.plan<results = [#s]>} 2.0 : f32
  %r = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"],
       dist.plan = #dist.plan<operands = [#cut], results = [#cut]>} outs(%x : tensor<8xf32>) {
  ^bb0(%a: f32):
    %m = arith.mulf %a, %half : f32
    %p = arith.addf %m, %two : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %f = linalg.fill {dist.plan = #dist.plan<operands = [#s, #cut], results = [#cut]>} ins(%two : f32)
       outs(%r : tensor<8xf32>) -> tensor<8xf32>
  return %f : tensor<8xf32>
}
