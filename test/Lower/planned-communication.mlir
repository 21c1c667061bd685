// What was planned to run beside communication still does, whatever is computed together.
// RUN: kerf-opt %s --split-input-file --kerf-form-groups | FileCheck %s
// REQUIRES: kerf-opt

// The kernel takes in an op from behind the first wait; the second start, which
// reads it, and that wait stay in their order.
// CHECK-LABEL: func.func @fused_over_a_wait
// CHECK: %[[P0:.*]] = dist.all_reduce %arg0
// CHECK: %[[A:.*]]:2 = exec.group
// CHECK: %[[P1:.*]] = dist.all_reduce %[[A]]#0
// CHECK: dist.wait %[[P0]]
// CHECK: exec.group
// CHECK: dist.wait %[[P1]]
dist.mesh @mesh ["dp"=2]
func.func @fused_over_a_wait(%x: tensor<64xf32>, %g: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %p0 = dist.all_reduce %x sum ["dp"] : tensor<64xf32> -> !dist.pending<tensor<64xf32>>
  %a = nn.exp %g : tensor<64xf32>
  %p1 = dist.all_reduce %a sum ["dp"] : tensor<64xf32> -> !dist.pending<tensor<64xf32>>
  %r0 = dist.wait %p0 : !dist.pending<tensor<64xf32>>
  %n = nn.neg %r0 : tensor<64xf32>
  %c = nn.mul %a, %g : tensor<64xf32>
  %r1 = dist.wait %p1 : !dist.pending<tensor<64xf32>>
  return %n, %c, %r1 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// A call with several results stands where it stood: what reads the first of
// them runs before the wait, as it did.
// CHECK-LABEL: func.func @several_results
// CHECK: exec.attention_gradient
// CHECK-COUNT-5: exec.matmul
// CHECK: dist.wait
dist.mesh @mesh ["dp"=2]
func.func @several_results(
    %q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>, %y: tensor<1x2x4x8xf32>,
    %s: tensor<1x2x4xf32>, %dy: tensor<1x2x4x8xf32>, %g: tensor<64xf32>, %w: tensor<16x16xf32>)
    -> (tensor<64xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
  %p = dist.all_reduce %g sum ["dp"] : tensor<64xf32> -> !dist.pending<tensor<64xf32>>
  %dq, %dk, %dv = nn.attention_gradient %q, %k, %v, %y, %s, %dy scale 0.125
      : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>
  %tq = nn.transpose %dq perm [0, 2, 1, 3] : (tensor<1x2x4x8xf32>) -> tensor<1x4x2x8xf32>
  %rq = nn.reshape %tq : (tensor<1x4x2x8xf32>) -> tensor<4x16xf32>
  %m0 = nn.matmul %rq, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %tk = nn.transpose %dk perm [0, 2, 1, 3] : (tensor<1x2x4x8xf32>) -> tensor<1x4x2x8xf32>
  %rk = nn.reshape %tk : (tensor<1x4x2x8xf32>) -> tensor<4x16xf32>
  %m1 = nn.matmul %rk, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %tv = nn.transpose %dv perm [0, 2, 1, 3] : (tensor<1x2x4x8xf32>) -> tensor<1x4x2x8xf32>
  %rv = nn.reshape %tv : (tensor<1x4x2x8xf32>) -> tensor<4x16xf32>
  %m2 = nn.matmul %rv, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %a0 = nn.matmul %m0, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %a1 = nn.matmul %a0, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %z = nn.add %m1, %m2 : tensor<4x16xf32>
  %r = dist.wait %p : !dist.pending<tensor<64xf32>>
  return %r, %a1, %z : tensor<64xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}
