// RUN: kerf-opt %s --split-input-file --kerf-flatten --kerf-propagate --kerf-partition | FileCheck %s
// REQUIRES: kerf-opt

// Loops and branches on parts: the rows of a carried value are cut, as nothing in the loop needs them whole; the weight,
// of which all rows are added up, is not. Nothing moves inside.

// CHECK-LABEL: func.func @stage0_forward(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32> {{.*}}, %[[W:.*]]: tensor<6x6xf32>
// CHECK-NOT: dist.all
// CHECK: call @whole_local({{.*}}, %[[X]], %[[W]]) {no_inline} : ({{.*}}, tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
// CHECK: func.func private @whole_local(
// CHECK-NOT: dist.
// CHECK: scf.for {{.*}} -> (tensor<4x6xf32>) {
// CHECK: arith.constant dense<0.0{{.*}}> : tensor<4x6xf32>
// CHECK: linalg.matmul {{.*}} -> tensor<4x6xf32>
// CHECK: scf.if {{.*}} -> (tensor<4x6xf32>) {
// CHECK: math.tanh {{.*}} : tensor<4x6xf32>
// CHECK: } else {
// CHECK: arith.negf {{.*}} : tensor<4x6xf32>
dist.mesh @mesh ["a"=2]
func.func @rows(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<{"a"}, {}>}, %w: tensor<6x6xf32>) -> tensor<8x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant dense<0.0> : tensor<8x6xf32>
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x) -> (tensor<8x6xf32>) {
    %0 = linalg.matmul ins(%a, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%zero : tensor<8x6xf32>) -> tensor<8x6xf32>
    %first = arith.cmpi eq, %i, %c0 : index
    %1 = scf.if %first -> (tensor<8x6xf32>) {
      %2 = math.tanh %0 : tensor<8x6xf32>
      scf.yield %2 : tensor<8x6xf32>
    } else {
      %3 = arith.negf %0 : tensor<8x6xf32>
      scf.yield %3 : tensor<8x6xf32>
    }
    scf.yield %1 : tensor<8x6xf32>
  }
  return %r : tensor<8x6xf32>
}

// -----

// Columns are needed whole by the next iteration: the loop is computed whole, what goes in is gathered.
// CHECK-LABEL: func.func @stage0_forward(
// CHECK: dist.all_gather
// CHECK: call @whole({{.*}}) {no_inline} : ({{.*}}tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
// CHECK-NOT: @whole_local
dist.mesh @mesh ["a"=2]
func.func @columns(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<{}, {"a"}>}, %w: tensor<6x6xf32>) -> tensor<8x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant dense<0.0> : tensor<8x6xf32>
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x) -> (tensor<8x6xf32>) {
    %0 = linalg.matmul ins(%a, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%zero : tensor<8x6xf32>) -> tensor<8x6xf32>
    scf.yield %0 : tensor<8x6xf32>
  }
  return %r : tensor<8x6xf32>
}

// -----

// A carried value that is turned: its rows are its columns in the next iteration, so neither is cut.
// CHECK-LABEL: func.func @stage0_forward(
// CHECK: call @whole({{.*}}) {no_inline}
// CHECK-NOT: @whole_local
dist.mesh @mesh ["a"=2]
func.func @turned(%x: tensor<6x6xf32> {dist.sharding = #dist.sharding<{"a"}, {}>}) -> tensor<6x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x) -> (tensor<6x6xf32>) {
    %e = tensor.empty() : tensor<6x6xf32>
    %0 = linalg.transpose ins(%a : tensor<6x6xf32>) outs(%e : tensor<6x6xf32>) permutation = [1, 0]
    scf.yield %0 : tensor<6x6xf32>
  }
  return %r : tensor<6x6xf32>
}

// -----

// A function that calls itself is a call like any other.
// CHECK-LABEL: func.func @stage0_forward(
// CHECK: call @round(%{{.*}}) : (tensor<6xf32>) -> tensor<6xf32>
dist.mesh @mesh ["a"=2]
func.func @recursive(%x: tensor<6xf32> {dist.sharding = #dist.sharding<{"a"}>}) -> tensor<6xf32> {
  %0 = func.call @round(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
func.func private @round(%x: tensor<6xf32>) -> tensor<6xf32> attributes {no_inline} {
  %0 = func.call @round(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
