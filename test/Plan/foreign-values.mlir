// RUN: kerf-opt %s --allow-unregistered-dialect --split-input-file --kerf-plan="devices=4 mesh=tp=4" --kerf-partition -o %t
// RUN: FileCheck %s < %t
// RUN: not kerf-opt %s --allow-unregistered-dialect --split-input-file --kerf-plan="devices=4 memory-limit=1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LIMIT
// REQUIRES: kerf-opt

// Ops of no dialect, and elements that are no numbers of a width, inside of a function that is planned.

// CHECK-LABEL: func.func @stage0_forward(
// CHECK: "my.op"
func.func @unknown(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "my.op"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @stage0_forward(
// CHECK: arith.constant dense<0> : tensor<8x1xindex>
// CHECK: tensor.gather
func.func @indices(%x: tensor<4x6xf32>) -> tensor<8x6xf32> {
  %i = arith.constant dense<0> : tensor<8x1xindex>
  %0 = tensor.gather %x[%i] gather_dims([0]) : (tensor<4x6xf32>, tensor<8x1xindex>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// Names of our own give way to those of the module.
// CHECK: dist.mesh @mesh_0 ["tp"=4]
// CHECK: func.func @stage0_forward_0(
// CHECK: call @mesh(
// CHECK: call @stage0_forward(
func.func @names(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @mesh(%x) {no_inline} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @stage0_forward(%0) {no_inline} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func private @mesh(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @stage0_forward(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// A limit that nothing keeps, of a program so small that prices of memory grow out of all numbers.
// LIMIT: error: {{.*}}memory
func.func @small(%x: tensor<1x8x16xf32>, %w: tensor<1x16x32xf32>, %b: tensor<1x1x32xf32>) -> tensor<1x8x32xf32> {
  %zp = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %m = tosa.matmul %x, %w, %zp, %zp : (tensor<1x8x16xf32>, tensor<1x16x32xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x8x32xf32>
  %a = tosa.add %m, %b : (tensor<1x8x32xf32>, tensor<1x1x32xf32>) -> tensor<1x8x32xf32>
  %s = tosa.sigmoid %a : (tensor<1x8x32xf32>) -> tensor<1x8x32xf32>
  return %s : tensor<1x8x32xf32>
}
