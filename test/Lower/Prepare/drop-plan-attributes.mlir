// Equal ops of forward and backward merge: what the planner decided goes, and the phase that stays is no part of what
// an op computes. The one that stays is the first.
// RUN: kerf-opt %s --kerf-drop-plan-attributes | FileCheck %s
// RUN: kerf-opt %s --pass-pipeline='builtin.module(func.func(kerf-drop-plan-attributes,kerf-merge-equal-ops))' | FileCheck %s --check-prefix=MERGED
// REQUIRES: kerf-opt

// CHECK: nn.relu %{{[^ ]*}} : tensor<4xf32>
// CHECK: nn.relu %{{[^ ]*}} {dist.step = #backward_input} : tensor<4xf32>

// MERGED: %[[Y:.*]] = nn.relu %{{[^ ]*}} : tensor<4xf32>
// MERGED-NEXT: return %[[Y]], %[[Y]]
dist.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.relu %x {dist.plan = #dist.plan<stage = 0>} : tensor<4xf32>
  %1 = nn.relu %x {dist.plan = #dist.plan<stage = 0>, dist.step = #dist.step<backward_input, colocation 3>} : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
