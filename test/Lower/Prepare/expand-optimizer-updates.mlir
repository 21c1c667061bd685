// RUN: kerf-opt %s --split-input-file --kerf-expand-optimizer-updates | FileCheck %s
// REQUIRES: kerf-opt

// w - lr (g + 0.5 w)
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>, %[[LR:.*]]: tensor<f32>
// CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01>
// CHECK: %[[DECAY:.*]] = nn.mul %[[W]], %[[HALF]] {exec.update}
// CHECK: %[[SUM:.*]] = nn.add %[[G]], %[[DECAY]] {exec.update}
// CHECK: %[[STEP:.*]] = nn.mul %[[SUM]], %[[LR]] {exec.update}
// CHECK: nn.sub %[[W]], %[[STEP]] {exec.update}
func.func @main(%w: tensor<4xf32>, %g: tensor<4xf32>, %lr: tensor<f32>) -> tensor<4xf32> {
  %0 = nn.sgd_update %w, %g, %lr momentum 0.0 weight_decay 0.5 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
