// RUN: kerf-opt %s --split-input-file --kerf-recompute | FileCheck %s
// RUN: kerf-opt %s --split-input-file --kerf-recompute=every=2 | FileCheck %s --check-prefix=SECOND
// RUN: kerf-opt %s --split-input-file --kerf-recompute=every=0 | FileCheck %s --check-prefix=NONE
// RUN: not kerf-opt %s --split-input-file --kerf-recompute=every=-1 2>&1 | FileCheck %s --check-prefix=WRONG
// REQUIRES: kerf-opt
// WRONG: error: every: -1, expected at least 0
// NONE-NOT: recomputed

// Three alike layers are three blocks. Held are x and what goes from layer to layer; the product of each layer, which the
// gradient reads, is computed again in front of it. All of a layer has one colocation, its update too.
// CHECK-LABEL: module
// CHECK: nn.matmul %[[X:.*]], %[[W:.*]] {dist.step = #forward_0}
// CHECK: %[[G0:.*]] = nn.gelu %{{.*}} {dist.step = #forward_0}
// CHECK: nn.matmul %[[G0]], %[[W]] {dist.step = #forward_2}
// CHECK: %[[G1:.*]] = nn.gelu %{{.*}} {dist.step = #forward_2}
// CHECK: nn.matmul %[[G1]], %[[W]] {dist.step = #forward_4}
// CHECK: nn.reduce {{.*}}_loss
// CHECK: %[[H2:.*]] = nn.matmul %[[G1]], %[[W]] {dist.step = #backward_input_4_recomputed}
// CHECK-NEXT: nn.mul %[[H2]], {{.*}} {dist.step = #backward_input_4}
// CHECK-NEXT: nn.mul {{.*}}, %[[G1]]
// CHECK: %[[H1:.*]] = nn.matmul %[[G0]], %[[W]] {dist.step = #backward_input_2_recomputed}
// CHECK-NEXT: nn.mul %[[H1]], {{.*}} {dist.step = #backward_input_2}
// CHECK-NEXT: nn.mul {{.*}}, %[[G0]]
// CHECK: %[[H0:.*]] = nn.matmul %[[X]], %[[W]] {dist.step = #backward_input_0_recomputed}
// CHECK-NEXT: nn.mul %[[H0]], {{.*}} {dist.step = #backward_input_0}
// CHECK: nn.matmul {{.*}} {dist.step = #backward_weight_0, transpose_lhs}
// CHECK-NOT: recomputed
// CHECK: dist.assign {{.*}} {dist.step = #update_0}

// The first and the third; the second one is as it was.
// SECOND-LABEL: module
// SECOND: nn.matmul {{.*}} {dist.step = #forward_2}
// SECOND: nn.gelu {{.*}} {dist.step = #forward_3}
// SECOND: nn.matmul {{.*}} {dist.step = #backward_input_4_recomputed}
// SECOND-NOT: _2_recomputed
// SECOND: nn.matmul {{.*}} {dist.step = #backward_input_0_recomputed}
module {
func.func @main(%x: tensor<4x3xf32> {kerf.name = "x"}, %rate: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<3x3xf32>
  %h0 = nn.matmul %x, %w {dist.step = #dist.step<forward, colocation 0>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %g0 = nn.gelu %h0 {dist.step = #dist.step<forward, colocation 1>} : tensor<4x3xf32>
  %h1 = nn.matmul %g0, %w {dist.step = #dist.step<forward, colocation 2>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %g1 = nn.gelu %h1 {dist.step = #dist.step<forward, colocation 3>} : tensor<4x3xf32>
  %h2 = nn.matmul %g1, %w {dist.step = #dist.step<forward, colocation 4>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %g2 = nn.gelu %h2 {dist.step = #dist.step<forward, colocation 5>} : tensor<4x3xf32>
  %l = nn.reduce sum %g2 dims [0, 1] {dist.step = #dist.step<forward, colocation 6, loss>} : (tensor<4x3xf32>) -> tensor<f32>
  // Gradients of another function: what they read is what counts.
  %d2 = nn.mul %h2, %g2 {dist.step = #dist.step<backward_input, colocation 5>} : tensor<4x3xf32>
  %e2 = nn.mul %d2, %g1 {dist.step = #dist.step<backward_input, colocation 4>} : tensor<4x3xf32>
  %d1 = nn.mul %h1, %e2 {dist.step = #dist.step<backward_input, colocation 3>} : tensor<4x3xf32>
  %e1 = nn.mul %d1, %g0 {dist.step = #dist.step<backward_input, colocation 2>} : tensor<4x3xf32>
  %d0 = nn.mul %h0, %e1 {dist.step = #dist.step<backward_input, colocation 1>} : tensor<4x3xf32>
  %dw = nn.matmul %x, %d0 {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %loss = dist.accumulate %l {dist.step = #dist.step<forward, colocation 6, statistics>} : (tensor<f32>) -> tensor<f32>
  %gw = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %new = nn.sgd_update %w, %gw, %rate momentum 0.0 weight_decay 0.0 {dist.step = #dist.step<update, colocation 1>} : tensor<3x3xf32>
  dist.assign %w, %new {dist.step = #dist.step<update, colocation 1>} : tensor<3x3xf32>
  return %loss : tensor<f32>
}
}

// -----

// Nothing repeats: the block ends where one value alone crosses, %v. Of it %m is small, so it is held. %n is read by the
// backward pass alone and moves there. Random numbers are drawn from the same stream.
// CHECK-LABEL: module
// CHECK: nn.philox [[RANDOM:.*]] {dist.step = #forward_0, stream = 7 : i64}
// CHECK: %[[M:.*]] = nn.reduce max
// CHECK-NOT: nn.neg
// CHECK: %[[V:.*]] = nn.gelu {{.*}} {dist.step = #forward_0}
// CHECK: nn.reshape %[[V]] {dist.step = #forward_5}
// CHECK: nn.tanh {{.*}} {dist.step = #forward_
// CHECK: nn.reduce sum
// CHECK: %[[AGAIN:.*]] = nn.philox [[RANDOM]] {dist.step = #backward_input_0_recomputed, stream = 7 : i64}
// CHECK-NEXT: %[[A:.*]] = nn.mul %{{.*}}, %[[AGAIN]] {dist.step = #backward_input_0_recomputed}
// CHECK-NEXT: %[[N:.*]] = nn.neg %[[A]] {dist.step = #backward_input_0_recomputed}
// CHECK-NEXT: nn.mul %[[N]], %[[V]] {dist.step = #backward_input_0}
// CHECK-NEXT: nn.reshape %[[M]] {dist.step = #backward_input_0}
module {
func.func @main(%x: tensor<4x64xf32> {kerf.name = "x"}, %seed: tensor<i64> {kerf.name = "train.seed"}, %step: tensor<i64> {kerf.name = "train.step"})
    -> (tensor<f32> {kerf.name = "loss"}) {
  %ids = nn.constant dense<3> : tensor<4x64xi64>
  %r = nn.philox %ids, %seed, %step {stream = 7 : i64, dist.step = #dist.step<forward, colocation 0>}
    : (tensor<4x64xi64>, tensor<i64>, tensor<i64>) -> tensor<4x64xf32>
  %a = nn.mul %x, %r {dist.step = #dist.step<forward, colocation 1>} : tensor<4x64xf32>
  %m = nn.reduce max %a dims [1] {dist.step = #dist.step<forward, colocation 2>} : (tensor<4x64xf32>) -> tensor<4xf32>
  %n = nn.neg %a {dist.step = #dist.step<forward, colocation 3>} : tensor<4x64xf32>
  %v = nn.gelu %a {dist.step = #dist.step<forward, colocation 4>} : tensor<4x64xf32>
  %y = nn.reshape %v {dist.step = #dist.step<forward, colocation 5>} : (tensor<4x64xf32>) -> tensor<64x4xf32>
  %t = nn.tanh %y {dist.step = #dist.step<forward, colocation 6>} : tensor<64x4xf32>
  %l = nn.reduce sum %t dims [0, 1] {dist.step = #dist.step<forward, colocation 7, loss>} : (tensor<64x4xf32>) -> tensor<f32>
  %d = nn.mul %n, %v {dist.step = #dist.step<backward_input, colocation 4>} : tensor<4x64xf32>
  %k = nn.reshape %m {dist.step = #dist.step<backward_input, colocation 2>} : (tensor<4xf32>) -> tensor<4x1xf32>
  %e = nn.mul %d, %k {dist.step = #dist.step<backward_weight, colocation 2>} : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %f = nn.reduce sum %e dims [0, 1] {dist.step = #dist.step<backward_weight, colocation 2>} : (tensor<4x64xf32>) -> tensor<f32>
  %loss = dist.accumulate %l {dist.step = #dist.step<forward, colocation 7, statistics>} : (tensor<f32>) -> tensor<f32>
  %g = dist.accumulate %f {dist.step = #dist.step<backward_weight, colocation 2, statistics>} : (tensor<f32>) -> tensor<f32>
  %both = nn.add %loss, %g {dist.step = #dist.step<update, colocation 2>} : tensor<f32>
  return %both : tensor<f32>
}
}

// -----

// What goes on is %y0, a view of %v0, so that is held as well.
// CHECK-LABEL: module
// CHECK: %[[V0:.*]] = nn.gelu {{.*}} {dist.step = #forward_0}
// CHECK: %[[V1:.*]] = nn.gelu {{.*}} {dist.step = #forward_4}
// CHECK: nn.reduce sum
// CHECK: %[[H1:.*]] = nn.matmul {{.*}} {dist.step = #backward_input_4_recomputed}
// CHECK-NEXT: nn.mul %[[H1]], %[[V1]]
// CHECK: %[[H0:.*]] = nn.matmul {{.*}} {dist.step = #backward_input_0_recomputed}
// CHECK-NEXT: nn.mul %[[H0]], %[[V0]]
// CHECK-NOT: recomputed
module {
func.func @main(%x: tensor<12xf32> {kerf.name = "x"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<3x3xf32>
  %x0 = nn.reshape %x {dist.step = #dist.step<forward, colocation 0>} : (tensor<12xf32>) -> tensor<4x3xf32>
  %h0 = nn.matmul %x0, %w {dist.step = #dist.step<forward, colocation 1>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %v0 = nn.gelu %h0 {dist.step = #dist.step<forward, colocation 2>} : tensor<4x3xf32>
  %y0 = nn.reshape %v0 {dist.step = #dist.step<forward, colocation 3>} : (tensor<4x3xf32>) -> tensor<12xf32>
  %x1 = nn.reshape %y0 {dist.step = #dist.step<forward, colocation 4>} : (tensor<12xf32>) -> tensor<4x3xf32>
  %h1 = nn.matmul %x1, %w {dist.step = #dist.step<forward, colocation 5>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %v1 = nn.gelu %h1 {dist.step = #dist.step<forward, colocation 6>} : tensor<4x3xf32>
  %y1 = nn.reshape %v1 {dist.step = #dist.step<forward, colocation 7>} : (tensor<4x3xf32>) -> tensor<12xf32>
  %l = nn.reduce sum %y1 dims [0] {dist.step = #dist.step<forward, colocation 8, loss>} : (tensor<12xf32>) -> tensor<f32>
  %d1 = nn.mul %h1, %v1 {dist.step = #dist.step<backward_input, colocation 6>} : tensor<4x3xf32>
  %d0 = nn.mul %h0, %v0 {dist.step = #dist.step<backward_input, colocation 2>} : tensor<4x3xf32>
  %d = nn.add %d0, %d1 {dist.step = #dist.step<backward_input, colocation 2>} : tensor<4x3xf32>
  %f = nn.reduce sum %d dims [0, 1] {dist.step = #dist.step<backward_weight, colocation 2>} : (tensor<4x3xf32>) -> tensor<f32>
  %loss = dist.accumulate %l {dist.step = #dist.step<forward, colocation 8, statistics>} : (tensor<f32>) -> tensor<f32>
  %g = dist.accumulate %f {dist.step = #dist.step<backward_weight, colocation 2, statistics>} : (tensor<f32>) -> tensor<f32>
  %both = nn.add %loss, %g {dist.step = #dist.step<update, colocation 2>} : tensor<f32>
  return %both : tensor<f32>
}
}
