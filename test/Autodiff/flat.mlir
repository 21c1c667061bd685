// RUN: kerf-opt %s '--kerf-autodiff=loss=mse(y,t) optimizer=sgd' --kerf-verify-after-autodiff | FileCheck %s
// REQUIRES: kerf-opt

// What the loss depends on only through ops without slope is not trained; a weight that is a splat becomes state.

// CHECK-LABEL: @main
func.func @main(%x: tensor<4x6xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<4x6xf32> {kerf.name = "y"}) {
  // CHECK-NOT: variable
  // CHECK: %[[B:.*]] = nn.state "b" {init = 2.000000e+00 : f32} : tensor<6xf32>
  %w = nn.weight "w" file 0 at 0 : tensor<6xf32>
  %b = nn.constant {name = "b"} dense<2.0> : tensor<6xf32>
  // CHECK: nn.constant {name = "c"} dense<3.000000e+00>
  %c = nn.constant {name = "c"} dense<3.0> : tensor<6xf32>
  %f = nn.floor %w : tensor<6xf32>
  %s = nn.sign %c : tensor<6xf32>
  %0 = nn.mul %x, %f : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = nn.mul %0, %s : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: dist.assign %[[B]]
  // CHECK-NOT: dist.assign
  %y = nn.add %1, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
