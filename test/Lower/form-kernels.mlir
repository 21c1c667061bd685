// Which ops become one kernel.
// RUN: kerf-opt %s --split-input-file --kerf-form-kernels | FileCheck %s
// REQUIRES: kerf-opt

// Residual and norm are one pass; the sum is stored as well, for the next residual.
// CHECK-LABEL: func.func @norm(
// CHECK-COUNT-2: exec.empty : tensor<4x8xf32>
// CHECK: %[[G:.*]]:2 = exec.group 0 "" (%[[X:.*]] = %arg0 : tensor<4x8xf32>, %[[R:.*]] = %arg1 : tensor<4x8xf32>,
// CHECK-NEXT: %[[SUM:.*]] = nn.add %[[X]], %[[R]]
// CHECK-NEXT: %[[NORM:.*]] = nn.layer_norm %[[SUM]]
// CHECK-NEXT: exec.yield %[[SUM]], %[[NORM]]
// CHECK-NOT: exec.group
// CHECK: return %[[G]]#0, %[[G]]#1
func.func @norm(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.add %x, %r : tensor<4x8xf32>
  %1 = nn.layer_norm %0, %s, %b dim 1 epsilon 1.0e-05 : tensor<4x8xf32>, tensor<8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A path through a product leads out of the union and back: two kernels.
// CHECK-LABEL: func.func @path(
// CHECK: %[[A:.*]] = exec.group 0
// CHECK-NEXT: nn.tanh
// CHECK-NEXT: exec.yield
// CHECK: %[[P:.*]] = exec.matmul 0 {{.*}} lhs(%[[A]] : tensor<4x4xf32>)
// CHECK: exec.group 1 "" (%[[IN:.*]] = %[[P]] : tensor<4x4xf32>, %[[AGAIN:.*]] = %[[A]] : tensor<4x4xf32>)
// CHECK-NEXT: %[[MAX:.*]] = nn.reduce max %[[IN]]
// CHECK-NEXT: nn.add %[[AGAIN]], %[[MAX]]
// CHECK-NEXT: exec.yield
func.func @path(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = nn.tanh %x : tensor<4x4xf32>
  %e = exec.empty : tensor<4x4xf32>
  %1 = exec.matmul 0 "" m 4 n 4 k 4 lhs(%0 : tensor<4x4xf32>) rhs(%0 : tensor<4x4xf32>) dst(%e : tensor<4x4xf32>) : tensor<4x4xf32>
  %2 = nn.reduce max %1 dims [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  %3 = nn.add %0, %2 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// A slice is read where it is; a reshape is another name for the same bytes.
// CHECK-LABEL: func.func @views(
// CHECK: %[[G:.*]] = exec.group 0 "" (%[[X:.*]] = %arg0 : tensor<4x16xf32>)
// CHECK-NEXT: %[[S:.*]] = nn.slice %[[X]] from [2, 0]
// CHECK-NEXT: nn.relu %[[S]]
// CHECK-NEXT: exec.yield
// CHECK: %[[V:.*]] = nn.reshape %[[G]]
// CHECK-NEXT: return %[[V]]
func.func @views(%x: tensor<4x16xf32>) -> tensor<32xf32> {
  %0 = nn.slice %x from [2, 0] : (tensor<4x16xf32>) -> tensor<2x16xf32>
  %1 = nn.relu %0 : tensor<2x16xf32>
  %2 = nn.reshape %1 : (tensor<2x16xf32>) -> tensor<32xf32>
  return %2 : tensor<32xf32>
}

// -----

// What is computed at load is a group of its own, whoever reads it.
// CHECK-LABEL: func.func @at_load(
// CHECK: %[[D:.*]] = exec.group 0 "" at_load
// CHECK-NEXT: nn.exp
// CHECK-NEXT: exec.yield
// CHECK: exec.group 1 "" (%{{.*}} = %arg0 : tensor<2x4xf32>, %{{.*}} = %[[D]] : tensor<4xf32>)
func.func @at_load(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %b = nn.weight "b" file 0 at 0 : tensor<4xf32>
  %0 = nn.exp %b {exec.at_load} : tensor<4xf32>
  %1 = nn.add %x, %0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Where memory is slow a group widens for itself what it reads in 16 bits: the
// wide tensor, which a product stands between, is not stored.
// CHECK-LABEL: func.func @recomputed(
// CHECK-NOT: exec.empty : tensor<64x64xf32>
// CHECK: exec.group 1 "" (%[[X:.*]] = %arg0 : tensor<64x64xbf16>, %[[P:.*]] = %{{.*}} : tensor<64x64xbf16>)
// CHECK-NEXT: %[[WIDE:.*]] = nn.cast %[[X]]
// CHECK-NEXT: %[[WIDE_P:.*]] = nn.cast %[[P]]
// CHECK-NEXT: nn.add %[[WIDE]], %[[WIDE_P]]
// CHECK-NOT: exec.empty : tensor<64x64xf32>
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @recomputed(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = nn.cast %x : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    %1 = nn.exp %0 : tensor<64x64xf32>
    %2 = nn.cast %1 : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %e = exec.empty : tensor<64x64xbf16>
    %3 = exec.matmul 0 "" m 64 n 64 k 64 lhs(%2 : tensor<64x64xbf16>) rhs(%x : tensor<64x64xbf16>)
        dst(%e : tensor<64x64xbf16>) : tensor<64x64xbf16>
    %4 = nn.cast %3 : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    %5 = nn.add %0, %4 : tensor<64x64xf32>
    %6 = nn.cast %5 : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    return %6 : tensor<64x64xbf16>
  }
}

// -----

// Two calls read the same transposed sum, of which each has a copy: it is stored once.
// CHECK-LABEL: func.func @copies(
// CHECK: %[[T:.*]] = exec.group 0 ""
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: exec.yield %{{[^,]*}} :
// CHECK: exec.matmul 0 {{.*}} lhs(%[[T]] : tensor<4x2x8xf32>)
// CHECK: exec.matmul 1 {{.*}} lhs(%[[T]] : tensor<4x2x8xf32>)
func.func @copies(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = nn.add %x, %y : tensor<2x4x8xf32>
  %1 = nn.transpose %0 perm [1, 0, 2] : (tensor<2x4x8xf32>) -> tensor<4x2x8xf32>
  %d = exec.empty : tensor<8x8xf32>
  %2 = exec.matmul 0 "" m 8 n 8 k 8 lhs(%1 : tensor<4x2x8xf32>) rhs(%v : tensor<8x8xf32>) dst(%d : tensor<8x8xf32>) : tensor<8x8xf32>
  %3 = nn.transpose %0 perm [1, 0, 2] : (tensor<2x4x8xf32>) -> tensor<4x2x8xf32>
  %e = exec.empty : tensor<8x8xf32>
  %4 = exec.matmul 1 "" m 8 n 8 k 8 lhs(%3 : tensor<4x2x8xf32>) rhs(%w : tensor<8x8xf32>) dst(%e : tensor<8x8xf32>) : tensor<8x8xf32>
  return %2, %4 : tensor<8x8xf32>, tensor<8x8xf32>
}
