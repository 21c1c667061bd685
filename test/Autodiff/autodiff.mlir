// RUN: kerf-opt %s '--kerf-autodiff=loss=cross_entropy(logits,labels) optimizer=momentum' --kerf-verify-after-autodiff | FileCheck %s
// RUN: kerf-opt %s '--kerf-autodiff=loss=cross_entropy(logits,labels) optimizer=sgd trainable=b.* clip-norm=1' \
// RUN:   --kerf-verify-after-autodiff | FileCheck %s --check-prefix=PART
// REQUIRES: kerf-opt

// A layer and its bias under cross entropy. Labels become an input; what the mean divides by is computed in the prologue, where
// a gather from one entry per class refuses labels out of range; the largest logit has no gradient.

// CHECK: func.func @main(%[[X:.*]]: tensor<4x6xf32> {kerf.batch_dim = 0 : i64, kerf.name = "x"},
// CHECK-SAME: %[[LABELS:.*]]: tensor<4xi64> {kerf.batch_dim = 0 : i64, kerf.name = "labels", kerf.range = [0, 5]},
// CHECK-SAME: %[[LR:.*]]: tensor<f32> {kerf.name = "train.learning_rate"})
// CHECK-SAME: -> (tensor<f32> {kerf.name = "loss"})
func.func @main(%x: tensor<4x6xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<4x5xf32> {kerf.name = "logits"}) {
  // CHECK: %[[W:.*]] = nn.weight "w" {{.*}}variable}
  // CHECK: %[[MW:.*]] = nn.state "momentum/w" {init = 0.000000e+00 : f32}
  %w = nn.weight "w" file 0 at 0 : tensor<6x5xf32>
  // CHECK: %[[B:.*]] = nn.weight "b" {{.*}}variable}
  // CHECK: %[[MB:.*]] = nn.state "momentum/b"
  %b = nn.weight "b" file 0 at 120 : tensor<5xf32>
  // CHECK: nn.matmul %[[X]], %[[W]] {dist.step = #forward_0}
  %h = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  // CHECK: nn.add {{.*}} {dist.step = #forward_1}
  %y = nn.add %h, %b : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  // CHECK: nn.reduce max {{.*}}dist.step = #{{.*}}statistics{{.*}}, kerf.no_gradient}
  // CHECK: nn.gather {{.*}}dist.step = #prologue_
  // CHECK: %[[COUNT:.*]] = nn.reduce {{.*}}dist.step = #prologue_
  // NaN where nothing counts: the divisor of each part of the sum is never 0.
  // CHECK: %[[NONE:.*]] = nn.equal %[[COUNT]], {{.*}}dist.step = #prologue_
  // CHECK: %[[DIVISOR:.*]] = nn.select %[[NONE]], %{{.*}}, %[[COUNT]] {{.*}}dist.step = #prologue_
  // CHECK: %[[LOSS:.*]] = nn.div %{{.*}}, %[[DIVISOR]] {dist.step = #forward_{{[0-9]+}}_loss}
  // CHECK: %[[DB:.*]] = nn.reduce sum %[[DY:.*]] dims [0] {dist.step = #backward_weight_1
  // CHECK: %[[DW:.*]] = nn.matmul {{.*}}dist.step = #backward_weight_0
  // CHECK: %[[L:.*]] = dist.accumulate %[[LOSS]]
  // CHECK: %[[GW:.*]] = dist.accumulate %[[DW]] {dist.step = #backward_weight_0_gradient}
  // CHECK: %[[GB:.*]] = dist.accumulate %[[DB]] {dist.step = #{{[a-z_]*}}_1
  // CHECK: %[[W1:[a-z_0-9]+]], %[[MW1:[a-z_0-9]+]] = nn.sgd_update %[[W]], %[[GW]], %[[MW]], %[[LR]] momentum 0.9 weight_decay
  // CHECK-SAME: {dist.step = #update_0}
  // CHECK: nn.sgd_update %[[B]], %[[GB]], %[[MB]], %[[LR]] {{.*}} {dist.step = #{{[a-z_]*}}_1
  // CHECK: dist.assign %[[W]], %[[W1]] {dist.step = #update_0}
  // CHECK: dist.assign %[[MW]], %[[MW1]]
  // CHECK: dist.assign %[[B]]
  // CHECK: return %[[L]] : tensor<f32>
  return %y : tensor<4x5xf32>}

// Only the bias is trained: no gradient of the product, and the norm of one gradient is a result.
// PART: -> (tensor<f32> {kerf.name = "loss"}, tensor<f32> {kerf.name = "gradient_norm"})
// PART-NOT: variable
// PART: nn.weight "b" {{.*}}variable
// PART-NOT: nn.state
// PART: nn.matmul
// PART-NOT: nn.matmul
// PART: dist.assign
// PART-NOT: dist.assign
