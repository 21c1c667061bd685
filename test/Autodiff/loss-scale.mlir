// In float16 the gradient of the loss is a number that the caller sets; sums of gradients are divided by it, and all keeps
// its old value where their norm is not finite.
//
// RUN: kerf-opt %s '--kerf-autodiff=loss=mse(y,t) optimizer=sgd,lr=0.5 precision=f16' | FileCheck %s
// RUN: kerf-opt %s '--kerf-autodiff=loss=mse(y,t) optimizer=sgd,lr=0.5 precision=bf16' | FileCheck %s --check-prefix=BF16
// REQUIRES: kerf-opt

// BF16-NOT: loss_scale
// CHECK: %[[SCALE:arg[0-9]+]]: tensor<f32> {kerf.name = "train.loss_scale"}
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: nn.mul %[[SCALE]], {{.*}} {dist.step = #backward
// CHECK: %[[SUM:.*]] = dist.accumulate
// CHECK: %[[GRADIENT:.*]] = nn.div %{{.*}}, %[[SCALE]]
// CHECK: %[[NEW:.*]] = nn.sgd_update %[[W]], %[[GRADIENT]]
// CHECK: %[[FINE:.*]] = nn.and
// CHECK: %[[KEPT:.*]] = nn.select %[[FINE]], %[[NEW]], %[[W]]
// CHECK: dist.assign %[[W]], %[[KEPT]]
func.func @main(%x: tensor<2x4xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<2x3xf32> {kerf.name = "y"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<4x3xf32>
  %y = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
