// A loop that is cut along its samples is one on local shapes, with its body; the numbers that it counts by stay. What its
// condition joins is not cut.
//
// RUN: kerf-opt %s --kerf-localize -split-input-file -verify-diagnostics | FileCheck %s
// REQUIRES: kerf-opt

#scalar = #dist.sharding<>
#vector = #dist.sharding<{}>
#rows_tp = #dist.sharding<{"tp"}, {}>
#stack_tp = #dist.sharding<{}, {"tp"}, {}>
dist.mesh @mesh ["tp"=2]

// CHECK-LABEL: @samples
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>
func.func @samples(%x: tensor<5x4xf32> {dist.sharding = #rows_tp}, %w: tensor<4xf32> {dist.sharding = #vector},
                   %n: tensor<i64> {dist.sharding = #scalar}, %go: tensor<i1> {dist.sharding = #scalar}) {
  // CHECK: nn.loop limit 7 trip(%{{.*}} : tensor<i64>) while(%{{.*}} : tensor<i1>) from(%[[X]], %{{.*}} : tensor<3x4xf32>, tensor<i64>)
  // CHECK-SAME: with(%{{.*}} : tensor<4xf32>)
  %count, %y:3 = nn.loop limit 7 trip(%n : tensor<i64>) while(%go : tensor<i1>)
      from(%x, %n : tensor<5x4xf32>, tensor<i64>) with(%w : tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<5x4xf32>, %k: tensor<i64>, %b: tensor<4xf32>):
    // CHECK: nn.constant dense<1.000000e+00> : tensor<3x4xf32>
    %1 = nn.constant dense<1.0> : tensor<5x4xf32>
    // CHECK: nn.mul %{{.*}}, %{{.*}} : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
    %0 = nn.mul %a, %b : (tensor<5x4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>
    %3 = nn.add %k, %i : tensor<i64>
    %4 = nn.less %3, %k : (tensor<i64>, tensor<i64>) -> tensor<i1>
    // CHECK: nn.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<3x4xf32>, tensor<i64>, tensor<3x4xf32>
    nn.yield %4, %2, %3, %0 : tensor<i1>, tensor<5x4xf32>, tensor<i64>, tensor<5x4xf32>
  // CHECK: } : tensor<i64>, tensor<3x4xf32>, tensor<i64>, tensor<7x3x4xf32>
  } {dist.plan = #dist.plan<operands = [#scalar, #scalar, #rows_tp, #scalar, #vector], results = [#scalar, #rows_tp, #scalar, #stack_tp]>}
      : tensor<i64>, tensor<5x4xf32>, tensor<i64>, tensor<7x5x4xf32>
  return
}

// -----

#scalar = #dist.sharding<>
#rows_tp = #dist.sharding<{"tp"}, {}>
dist.mesh @mesh ["tp"=2]

func.func @joined(%x: tensor<4x4xf32> {dist.sharding = #rows_tp}, %n: tensor<i64> {dist.sharding = #scalar}, %go: tensor<i1> {dist.sharding = #scalar}) {
  // expected-error@+1 {{plan: operand 2: dimension 0 must stay whole but is cut by}}
  %count, %y = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<4x4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4x4xf32>):
    %0 = nn.exp %a : tensor<4x4xf32>
    %1 = nn.reduce max %0 dims [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
    %2 = nn.constant dense<9.0> : tensor<f32>
    %3 = nn.less %1, %2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    nn.yield %3, %0 : tensor<i1>, tensor<4x4xf32>
  } {dist.plan = #dist.plan<operands = [#scalar, #scalar, #rows_tp], results = [#scalar, #rows_tp]>} : tensor<i64>, tensor<4x4xf32>
  return
}
