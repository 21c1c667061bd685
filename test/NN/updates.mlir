// RUN: kerf-opt %s | kerf-opt | FileCheck %s

// Steps of the optimizers print as they parse.
// CHECK-LABEL: @updates
func.func @updates(%w: tensor<2x3xf32>, %g: tensor<2x3xf32>, %m: tensor<2x3xf32>, %v: tensor<2x3xf32>, %lr: tensor<f32>, %c: tensor<f32>) -> tensor<2x3xf32> {
  // CHECK: nn.sgd_update %{{.*}}, %{{.*}}, %{{.*}} momentum 0.0 weight_decay 0.0 : tensor<2x3xf32>
  %0 = nn.sgd_update %w, %g, %lr momentum 0.0 weight_decay 0.0 : tensor<2x3xf32>
  // CHECK: nn.sgd_update {{.*}} momentum 0.9 weight_decay 0.0 {nesterov} : tensor<2x3xf32>
  %1:2 = nn.sgd_update %w, %g, %m, %lr momentum 0.9 weight_decay 0.0 {nesterov} : tensor<2x3xf32>
  // CHECK: nn.adam_update {{.*}} beta1 0.9 beta2 0.999 epsilon 1.0e-08 weight_decay 0.01 {decoupled} : tensor<2x3xf32>
  %2:3 = nn.adam_update %w, %g, %m, %v, %lr, %c, %c beta1 0.9 beta2 0.999 epsilon 1.0e-08 weight_decay 0.01 {decoupled} : tensor<2x3xf32>
  // CHECK: nn.adagrad_update
  %3:2 = nn.adagrad_update %w, %g, %v, %lr epsilon 1.0e-10 weight_decay 0.0 : tensor<2x3xf32>
  // CHECK: nn.rmsprop_update {{.*}} alpha 0.99 epsilon 1.0e-08 momentum 0.0 weight_decay 0.0 : tensor<2x3xf32>
  %4:2 = nn.rmsprop_update %w, %g, %v, %lr alpha 0.99 epsilon 1.0e-08 momentum 0.0 weight_decay 0.0 : tensor<2x3xf32>
  // CHECK: nn.rmsprop_update {{.*}} momentum 0.9 weight_decay 0.1 : tensor<2x3xf32>
  %5:3 = nn.rmsprop_update %w, %g, %v, %m, %lr alpha 0.99 epsilon 1.0e-08 momentum 0.9 weight_decay 0.1 : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
