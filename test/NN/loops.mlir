// Loops are printed as they are read, also one in another, one that carries nothing, and one without captures.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @all
func.func @all(%x: tensor<2x3xf32>, %w: tensor<3xf32>, %n: tensor<i64>, %go: tensor<i1>) -> (tensor<i64>, tensor<2x3xf32>, tensor<9x2x3xf32>) {
  // CHECK: nn.loop limit 9 trip(%{{.*}} : tensor<i64>) while(%{{.*}} : tensor<i1>) from(%{{.*}} : tensor<2x3xf32>) with(%{{.*}} : tensor<3xf32>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<2x3xf32>, %{{.*}}: tensor<3xf32>):
  %count, %y:2 = nn.loop limit 9 trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<2x3xf32>) with(%w : tensor<3xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<2x3xf32>, %b: tensor<3xf32>):
    %0 = nn.mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %1 = nn.constant dense<true> : tensor<i1>
    // CHECK: nn.yield %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>
    nn.yield %1, %0, %a : tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>
  // CHECK-NEXT: } : tensor<i64>, tensor<2x3xf32>, tensor<9x2x3xf32>
  } : tensor<i64>, tensor<2x3xf32>, tensor<9x2x3xf32>
  return %count, %y#0, %y#1 : tensor<i64>, tensor<2x3xf32>, tensor<9x2x3xf32>
}

// CHECK-LABEL: func.func @least
func.func @least(%n: tensor<i64>, %go: tensor<i1>) -> tensor<i64> {
  // CHECK: nn.loop trip(%{{.*}} : tensor<i64>) while(%{{.*}} : tensor<i1>) {
  %count = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) {
  ^bb0(%i: tensor<i64>):
    %c = nn.constant dense<true> : tensor<i1>
    // CHECK: nn.loop trip(%{{.*}} : tensor<i64>) while(%{{.*}} : tensor<i1>) {
    %inner = nn.loop trip(%i : tensor<i64>) while(%c : tensor<i1>) {
    ^bb0(%j: tensor<i64>):
      %d = nn.constant dense<false> : tensor<i1>
      nn.yield %d : tensor<i1>
    } : tensor<i64>
    nn.yield %c : tensor<i1>
  // CHECK: } : tensor<i64>
  } : tensor<i64>
  return %count : tensor<i64>
}
