// What library calls take in, and what they do not.
// RUN: kerf-opt %s --split-input-file --kerf-select-library-calls | FileCheck %s
// REQUIRES: kerf-opt

// Bias, activation and residual of a product; the reshape between costs nothing.
// CHECK-LABEL: func.func @epilogue(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[R:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT: %[[W:.*]] = nn.weight "w"
// CHECK-NEXT: %[[B:.*]] = nn.weight "b"
// CHECK-NEXT: %[[E:.*]] = exec.empty : tensor<2x3x4xf32>
// CHECK-NEXT: %[[Y:.*]] = exec.matmul 0 "" m 6 n 4 k 8 lhs(%[[X]] : tensor<2x3x8xf32>) rhs(%[[W]] : tensor<8x4xf32>)
// CHECK-SAME: bias(%[[B]] : tensor<4xf32>) dst(%[[E]] : tensor<2x3x4xf32>)
// CHECK-SAME: then [gelu_tanh, add(%[[R]] : tensor<2x3x4xf32>)] : tensor<2x3x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @epilogue(%x: tensor<2x3x8xf32>, %r: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
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

// Attention as two products: no transpose is computed, the scale is a post-op,
// the heads are joined by what the second product stores.
// CHECK-LABEL: func.func @attention(
// CHECK-NOT: nn.transpose
// CHECK-NOT: nn.mul
// CHECK: %[[S:.*]] = exec.matmul 0 "" batch [2, 3] m 5 n 5 k 4
// CHECK-SAME: lhs(%{{.*}} : tensor<2x5x12xf32> strides [60, 4, 12, 1])
// CHECK-SAME: rhs(%{{.*}} : tensor<2x5x12xf32> strides [60, 4, 1, 12])
// CHECK-SAME: then [linear(5.000000e-01, 0.000000e+00)] : tensor<2x3x5x5xf32>
// CHECK-NEXT: %[[P:.*]] = nn.softmax %[[S]] dim 3
// CHECK-NOT: nn.transpose
// CHECK: %[[Y:.*]] = exec.matmul 1 "" batch [2, 3] {{.*}} lhs(%[[P]] : {{.*}}dst(%{{.*}} : tensor<2x5x12xf32> strides [60, 4, 12, 1])
// CHECK-NEXT: return %[[Y]]
func.func @attention(%q: tensor<2x5x12xf32>, %k: tensor<2x5x12xf32>, %v: tensor<2x5x12xf32>) -> tensor<2x5x12xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %q0 = nn.reshape %q : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %q1 = nn.transpose %q0 perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %k0 = nn.reshape %k : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %k1 = nn.transpose %k0 perm [0, 2, 3, 1] : (tensor<2x5x3x4xf32>) -> tensor<2x3x4x5xf32>
  %v0 = nn.reshape %v : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %v1 = nn.transpose %v0 perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %s = nn.matmul %q1, %k1 : (tensor<2x3x5x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x5x5xf32>
  %m = nn.mul %s, %half : (tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %p = nn.softmax %m dim 3 : tensor<2x3x5x5xf32>
  %o = nn.matmul %p, %v1 : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %o0 = nn.transpose %o perm [0, 2, 1, 3] : (tensor<2x3x5x4xf32>) -> tensor<2x5x3x4xf32>
  %o1 = nn.reshape %o0 : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
  return %o1 : tensor<2x5x12xf32>
}

// -----

// A transposed weight is strides, not a copy.
// CHECK-LABEL: func.func @transposed(
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK-NOT: nn.transpose
// CHECK: exec.matmul 0 {{.*}} rhs(%[[W]] : tensor<4x3xf32> strides [1, 3])
func.func @transposed(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<4x3xf32>
  %t = nn.transpose %w perm [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %0 = nn.matmul %x, %t : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// A convolution with its bias and activation.
// CHECK-LABEL: func.func @conv(
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK-NEXT: %[[B:.*]] = nn.weight "b"
// CHECK-NEXT: exec.empty
// CHECK-NEXT: exec.conv 0 {{.*}} batch 1 {{.*}} weights(%[[W]] : {{.*}} bias(%[[B]] : {{.*}} then [relu]
// CHECK-NEXT: return
func.func @conv(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<2x3x3x3xf32>
  %b = nn.weight "b" file 0 at 216 : tensor<2xf32>
  %0 = nn.conv %x, %w kernel 3x3 pad 1x1 : tensor<1x4x4x3xf32> -> tensor<1x4x4x2xf32>
  %1 = nn.add %0, %b : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  %2 = nn.relu %1 : tensor<1x4x4x2xf32>
  return %2 : tensor<1x4x4x2xf32>
}

// -----

// A sum over micro-batches is written over the sum so far.
// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: %[[SUM:[a-z0-9]*]]: tensor<3x4xf32> {dist.from
// CHECK-NOT: exec.empty
// CHECK: exec.matmul 0 {{.*}} dst(%[[SUM]] : tensor<3x4xf32>) then [sum] : tensor<3x4xf32>
func.func @accumulate(%x: tensor<2x3xf32>, %dy: tensor<2x4xf32>,
                      %sum: tensor<3x4xf32> {dist.from = #dist.from<accumulator 0>})
    -> (tensor<3x4xf32> {dist.to = #dist.to<keep [0]>}) {
  %0 = nn.matmul %x, %dy {transpose_lhs} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %1 = nn.add %sum, %0 : tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// -----

// A product that is used twice keeps its result: nothing is taken in.
// CHECK-LABEL: func.func @two_readers(
// CHECK: %[[P:.*]] = exec.matmul 0
// CHECK-NOT: then
// CHECK: %[[R:.*]] = nn.relu %[[P]]
// CHECK: return %[[P]], %[[R]]
func.func @two_readers(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = nn.matmul %x, %y : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = nn.relu %0 : tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The library knows no integers, and what is computed at load is no call.
// CHECK-LABEL: func.func @no_calls(
// CHECK: nn.matmul {{.*}} -> tensor<2x4xi64>
// CHECK: nn.matmul {{.*}} -> tensor<3x3xf32>
func.func @no_calls(%x: tensor<2x3xi64>, %y: tensor<3x4xi64>) -> (tensor<2x4xi64>, tensor<3x3xf32>) {
  %w = nn.weight "w" file 0 at 0 : tensor<3x3xf32>
  %0 = nn.matmul %x, %y : (tensor<2x3xi64>, tensor<3x4xi64>) -> tensor<2x4xi64>
  %1 = nn.matmul %w, %w {exec.at_load} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0, %1 : tensor<2x4xi64>, tensor<3x3xf32>
}

// -----

// A gradient's product stays in its place although it takes in a cast that
// belongs to the update: what it reads is free again when the next op runs. A
// cast of the same part of the step moves the product behind it.
// CHECK-LABEL: func.func @gradient(
// CHECK: exec.matmul 0 {{.*}} m 6 n 5 k 8
// CHECK: nn.exp
// CHECK: exec.matmul 1 {{.*}} m 8 n 5 k 6
// CHECK-NOT: nn.cast
func.func @gradient(%x: tensor<8x6xbf16>, %d: tensor<8x5xbf16>, %w: tensor<6x5xbf16>)
    -> (tensor<6x5xf32>, tensor<8x5xf32>, tensor<4xf32>) {
  %z = nn.constant dense<1.0> : tensor<4xf32>
  %0 = nn.matmul %x, %d {transpose_lhs, dist.step = #dist.step<backward_weight>}
     : (tensor<8x6xbf16>, tensor<8x5xbf16>) -> tensor<6x5xbf16>
  %1 = nn.matmul %x, %w {dist.step = #dist.step<backward_input>}
     : (tensor<8x6xbf16>, tensor<6x5xbf16>) -> tensor<8x5xbf16>
  %2 = nn.exp %z {dist.step = #dist.step<backward_input>} : tensor<4xf32>
  %3 = nn.cast %1 {dist.step = #dist.step<backward_input>} : (tensor<8x5xbf16>) -> tensor<8x5xf32>
  %4 = nn.cast %0 {dist.step = #dist.step<update>} : (tensor<6x5xbf16>) -> tensor<6x5xf32>
  return %4, %3, %2 : tensor<6x5xf32>, tensor<8x5xf32>, tensor<4xf32>
}
