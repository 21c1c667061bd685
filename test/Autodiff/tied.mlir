// RUN: kerf-opt %s '--kerf-autodiff=loss=mse(y,t) optimizer=sgd' --kerf-verify-after-autodiff | FileCheck %s
// REQUIRES: kerf-opt

// A weight that is used twice is one source; its gradients are added where it is used first, and so is it updated.

// CHECK-LABEL: @main
func.func @main(%x: tensor<4x6xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<4x6xf32> {kerf.name = "y"}) {
  // CHECK: %[[W:.*]] = nn.weight "w"
  // CHECK-NOT: nn.weight
  %w = nn.weight "w" file 0 at 0 : tensor<6x6xf32>
  %v = nn.weight "w" file 0 at 0 : tensor<6x6xf32>
  %a = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %h = nn.relu %a : tensor<4x6xf32>
  %y = nn.matmul %h, %v : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  // The gradient of the relu goes on to the first product alone, but it is that of an activation.
  // CHECK: nn.select {{.*}}dist.step = #backward_input_1
  // CHECK: %[[SUM:.*]] = nn.add {{.*}}dist.step = #backward_weight_0
  // CHECK: %[[G:.*]] = dist.accumulate %[[SUM]] {dist.step = #{{[a-z_]*}}_0
  // CHECK: %[[NEW:.*]] = nn.sgd_update %[[W]], %[[G]]
  // CHECK: dist.assign %[[W]], %[[NEW]] {dist.step = #{{[a-z_]*}}_0
  return %y : tensor<4x6xf32>
}
