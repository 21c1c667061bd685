// What library calls take in, and what they do not.
// RUN: kerf-opt %s --split-input-file --prepare --form-groups --bufferize | FileCheck %s
// REQUIRES: kerf-opt

// Bias, activation and residual of a product; the reshape between costs nothing.
// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<2x3x8xf32>{{.*}}, %[[R:.*]]: memref<2x3x4xf32>{{.*}}, %[[Y:.*]]: memref<2x3x4xf32>{{.*}})
// CHECK-NOT: exec.launch
// CHECK: exec.matmul 0 "" m 6 n 4 k 8 lhs(%[[X]] : memref<2x3x8xf32>) rhs(%{{.*}} : !exec.weight<8x4xf32>)
// CHECK-SAME: bias(%{{.*}} : !exec.weight<4xf32>) dst(%[[Y]] : memref<2x3x4xf32>)
// CHECK-SAME: then [gelu_tanh, add(%[[R]] : memref<2x3x4xf32>)]
func.func @main(%x: tensor<2x3x8xf32>, %r: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<8x4xf32>
  %b = nn.weight "b" file 0 at 128 : tensor<4xf32>
  %0 = nn.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
  %1 = nn.matmul %0, %w : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %2 = nn.add %1, %b : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %3 = nn.reshape %2 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %4 = nn.gelu %3 {tanh} : tensor<2x3x4xf32>
  %5 = nn.add %r, %4 : tensor<2x3x4xf32>
  return %5 : tensor<2x3x4xf32>
}

// -----

// Attention: no transpose is a kernel, the scale is a post-op, the heads are
// joined by what the second product stores.
// CHECK: exec.kernel @add_softmax_0
// CHECK-NOT: exec.kernel
// CHECK: exec.func @stage0_forward
// CHECK: exec.matmul 0 "" batch [2, 3]
// CHECK-SAME: lhs(%{{.*}} strides [60, 4, 12, 1])
// CHECK-SAME: rhs(%{{.*}} strides [60, 4, 1, 12])
// CHECK-SAME: then [linear(5.000000e-01, 0.000000e+00)]
// CHECK: exec.launch @add_softmax_0
// CHECK: exec.matmul 1 "" batch [2, 3] {{.*}}dst(%{{.*}} : memref<2x5x12xf32> strides [60, 4, 12, 1])
// CHECK-NOT: exec.copy
func.func @main(%q: tensor<2x5x12xf32>, %k: tensor<2x5x12xf32>, %v: tensor<2x5x12xf32>, %mask: tensor<5x5xf32>) -> tensor<2x5x12xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %q0 = nn.reshape %q : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %q1 = nn.transpose %q0 perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %q2 = nn.mul %q1, %half : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3x5x4xf32>
  %k0 = nn.reshape %k : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %k1 = nn.transpose %k0 perm [0, 2, 3, 1] : (tensor<2x5x3x4xf32>) -> tensor<2x3x4x5xf32>
  %v0 = nn.reshape %v : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %v1 = nn.transpose %v0 perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %s = nn.matmul %q2, %k1 : (tensor<2x3x5x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x5x5xf32>
  %m = nn.add %s, %mask : (tensor<2x3x5x5xf32>, tensor<5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = nn.softmax %m dim 3 : tensor<2x3x5x5xf32>
  %o = nn.matmul %p, %v1 : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %o0 = nn.transpose %o perm [0, 2, 1, 3] : (tensor<2x3x5x4xf32>) -> tensor<2x5x3x4xf32>
  %o1 = nn.reshape %o0 : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
  return %o1 : tensor<2x5x12xf32>
}

// -----

// A product that is used twice keeps its result: nothing is taken in.
// CHECK: exec.kernel @relu_0
// CHECK: exec.matmul 0
// CHECK-NOT: then
// CHECK: exec.launch @relu_0
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = nn.matmul %x, %y : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = nn.relu %0 : tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The library knows no integers: such a product is a kernel.
// CHECK: exec.kernel @matmul_0
// CHECK-NOT: exec.matmul
func.func @main(%x: tensor<2x3xi64>, %y: tensor<3x4xi64>) -> tensor<2x4xi64> {
  %0 = nn.matmul %x, %y : (tensor<2x3xi64>, tensor<3x4xi64>) -> tensor<2x4xi64>
  return %0 : tensor<2x4xi64>
}
