// Parts of a concatenation that lie one behind the other are computed where they belong.
// RUN: kerf-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(kerf-join-parts))' | FileCheck %s
// REQUIRES: kerf-opt

// Others read the first part, so that it is stored anyway.
// CHECK-LABEL: func.func @stored
// CHECK: %[[E:.*]] = exec.empty : tensor<2x16xf32>
// CHECK: exec.join %{{.*}}, %{{.*}} into(%[[E]] : tensor<2x16xf32>) : tensor<1x16xf32>, tensor<1x16xf32>
func.func @stored(%x: tensor<1x16xf32>) -> tensor<2x16xf32> {
  %0 = nn.tanh %x : tensor<1x16xf32>
  %1 = nn.softmax %0 dim 1 : tensor<1x16xf32>
  %2 = nn.concat %0, %1 dim 0 : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<2x16xf32>
  return %2 : tensor<2x16xf32>
}

// -----

// The second part begins where no buffer may: it is copied. With a part that the
// concatenation's kernel would compute itself, there is nothing to gain.
// CHECK-LABEL: func.func @unaligned
// CHECK-NOT: exec.join
// CHECK: nn.concat
func.func @unaligned(%x: tensor<1x6xf32>) -> (tensor<2x6xf32>, tensor<1x6xf32>) {
  %0 = nn.softmax %x dim 1 : tensor<1x6xf32>
  %1 = nn.tanh %0 : tensor<1x6xf32>
  %2 = nn.concat %1, %0 dim 0 : (tensor<1x6xf32>, tensor<1x6xf32>) -> tensor<2x6xf32>
  return %2, %0 : tensor<2x6xf32>, tensor<1x6xf32>
}

// -----

// Parts along the second dimension do not lie one behind the other; weights are
// not computed.
// CHECK-LABEL: func.func @others
// CHECK-NOT: exec.join
// CHECK: return
func.func @others(%x: tensor<2x16xf32>) -> (tensor<2x32xf32>, tensor<4x16xf32>) {
  %v = nn.weight "v" file 0 at 0 : tensor<2x16xf32>
  %w = nn.weight "w" file 0 at 128 : tensor<2x16xf32>
  %0 = nn.softmax %x dim 1 : tensor<2x16xf32>
  %1 = nn.softmax %0 dim 1 : tensor<2x16xf32>
  %2 = nn.concat %0, %1 dim 1 : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x32xf32>
  %3 = nn.concat %v, %w dim 0 : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<4x16xf32>
  return %2, %3 : tensor<2x32xf32>, tensor<4x16xf32>
}

// -----

// A bucket of gradients is not: its memory would be held from the first gradient on.
// CHECK-LABEL: func.func @bucket
// CHECK-NOT: exec.join
// CHECK: nn.concat
dist.mesh @mesh ["dp"=2]
func.func @bucket(%x: tensor<16xf32>) -> tensor<32xf32> {
  %0 = nn.softmax %x dim 0 : tensor<16xf32>
  %1 = nn.softmax %0 dim 0 : tensor<16xf32>
  %2 = nn.concat %0, %1 dim 0 : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  %3 = dist.all_reduce %2 sum ["dp"] : tensor<32xf32> -> tensor<32xf32>
  return %3 : tensor<32xf32>
}
