// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2" | FileCheck %s --check-prefix=DATA
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard=h=[{},{tp}]" | FileCheck %s --check-prefix=TENSOR
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=2 schedule=gpipe" | FileCheck %s --check-prefix=PIPE
// RUN: kerf-opt %s --kerf-plan="devices=1 micro-batches=4" | FileCheck %s --check-prefix=ACCUMULATE
// RUN: kerf-opt %s --kerf-plan="devices=4 mesh=dp=2,pp=2 micro-batches=2" | FileCheck %s --check-prefix=HYBRID
// RUN: not kerf-opt %s --kerf-plan="devices=1 micro-batches=3" 2>&1 | FileCheck %s --check-prefix=DIVIDE

// Data parallel: batch dimensions are cut, gradients are partial until they
// have been accumulated, and what is assigned lies as the weight does.
// DATA: dist.mesh @mesh ["dp"=2]
// DATA: nn.weight "w" file {{.*}} {dist.operands = [], dist.results = [#s_x_x]
// DATA: nn.matmul {{.*}}dist.operands = [#s_dp_x, #s_x_x], dist.results = [#s_dp_x]
// DATA: dist.accumulate {{.*}}dist.results = [#s_x_x_sum-dp]
// DATA: nn.mul {{.*}}dist.operands = [#s_x_x, #s]
// DATA: dist.assign {{.*}}dist.operands = [#s_x_x, #s_x_x]

// Columns, then rows; the gradients of both weights lie as the weights do.
// TENSOR: nn.weight "w" file {{.*}} {dist.operands = [], dist.results = [#s_x_tp]
// TENSOR: nn.weight "u" file {{.*}} {dist.operands = [], dist.results = [#s_tp_x]
// TENSOR: nn.state "momentum/w" {dist.operands = [], dist.results = [#s_x_tp]
// TENSOR: dist.accumulate {{.*}}dist.operands = [#s_tp_x], {{.*}}dist.results = [#s_tp_x]

// A pipeline: stages by colocation; the prologue reads all labels, the forward
// its micro-batch.
// PIPE: dist.schedule_kind = "gpipe"
// PIPE: dist.mesh @mesh ["pp"=2] time ["mb"=2]
// PIPE: kerf.name = "x"
// PIPE-SAME: tensor<8x4xf32> {dist.sharding = #s_x_x, kerf.batch_dim = 0 : i64, kerf.name = "labels"}
// PIPE: nn.reduce {{.*}}dist.operands = [#s_x_x], dist.phase = #dist<phase prologue>, dist.purpose = #dist<purpose statistics>, dist.results = [#s], dist.stage = 1
// PIPE: nn.matmul {{.*}}dist.stage = 0
// PIPE: nn.sub {{.*}}dist.operands = [#s_mb_x, #s_mb_x]
// PIPE: nn.reduce {{.*}}dist.results = [#s_sum-mb], dist.stage = 1
// PIPE: dist.accumulate {{.*}}dist.operands = [#s_x_x_sum-mb], {{.*}}dist.results = [#s_x_x], dist.stage = 1
// PIPE: nn.reduce {{.*}}dist.phase = #dist<phase backward_weight>, dist.results = [#s_x_sum-mb], dist.stage = 0
// PIPE: dist.assign {{.*}}dist.stage = 0

// ACCUMULATE: dist.mesh @mesh [] time ["mb"=4]
// ACCUMULATE: dist.accumulate {{.*}}dist.operands = [#s_x_x_sum-mb]

// The sum over devices comes once per step, behind the sum over micro-batches.
// HYBRID: dist.mesh @mesh ["pp"=2, "dp"=2] time ["mb"=2]
// HYBRID: dist.accumulate {{.*}}dist.operands = [#s_x_x_sum-dp-mb], {{.*}}dist.results = [#s_x_x_sum-dp]

// DIVIDE: --micro-batches: 3 does not divide the batch of 8

func.func @main(%x: tensor<8x6xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64},
                %labels: tensor<8x4xf32> {kerf.name = "labels", kerf.batch_dim = 0 : i64},
                %lr: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<6x8xf32>
  %b = nn.weight "b" file 0 at 192 {variable} : tensor<8xf32>
  %u = nn.weight "u" file 0 at 224 {variable} : tensor<8x4xf32>
  %v = nn.state "momentum/w" {init = 0.0 : f32} : tensor<6x8xf32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %absl = nn.mul %labels, %labels {dist.phase = #dist<phase prologue>, dist.colocation = 3 : i64} : tensor<8x4xf32>
  %n = nn.reduce sum %absl dims [0, 1] {dist.phase = #dist<phase prologue>, dist.colocation = 3 : i64, dist.purpose = #dist<purpose statistics>} : (tensor<8x4xf32>) -> tensor<f32>
  %some = nn.max %n, %one {dist.phase = #dist<phase prologue>, dist.colocation = 3 : i64} : tensor<f32>
  %inv = nn.div %one, %some {dist.phase = #dist<phase prologue>, dist.colocation = 3 : i64} : tensor<f32>
  // forward
  %h0 = nn.matmul %x, %w {dist.colocation = 0 : i64} : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %h1 = nn.add %h0, %b {dist.colocation = 0 : i64} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %h = nn.relu %h1 {dist.colocation = 1 : i64} : tensor<8x8xf32> loc("h")
  %y = nn.matmul %h, %u {dist.colocation = 2 : i64} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = nn.sub %y, %labels {dist.colocation = 3 : i64} : tensor<8x4xf32>
  %d2 = nn.mul %d, %d {dist.colocation = 3 : i64} : tensor<8x4xf32>
  %sum = nn.reduce sum %d2 dims [0, 1] {dist.colocation = 3 : i64, dist.purpose = #dist<purpose statistics>} : (tensor<8x4xf32>) -> tensor<f32>
  %loss = nn.mul %sum, %inv {dist.colocation = 3 : i64} : tensor<f32>
  // backward
  %dy = nn.mul %d, %inv {dist.phase = #dist<phase backward_input>, dist.colocation = 3 : i64} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %du = nn.matmul %h, %dy {transpose_lhs, dist.phase = #dist<phase backward_weight>, dist.colocation = 2 : i64} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %gu = dist.accumulate %du {dist.phase = #dist<phase backward_weight>, dist.colocation = 2 : i64, dist.purpose = #dist<purpose gradient>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %dh = nn.matmul %dy, %u {transpose_rhs, dist.phase = #dist<phase backward_input>, dist.colocation = 2 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %dh1 = nn.mul %dh, %h1 {dist.phase = #dist<phase backward_input>, dist.colocation = 1 : i64} : tensor<8x8xf32>
  %db = nn.reduce sum %dh1 dims [0] {dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64} : (tensor<8x8xf32>) -> tensor<8xf32>
  %gb = dist.accumulate %db {dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64, dist.purpose = #dist<purpose gradient>} : (tensor<8xf32>) -> tensor<8xf32>
  %dw = nn.matmul %x, %dh1 {transpose_lhs, dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64} : (tensor<8x6xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %g = dist.accumulate %dw {dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64, dist.purpose = #dist<purpose gradient>} : (tensor<6x8xf32>) -> tensor<6x8xf32>
  // update
  %su = nn.mul %gu, %lr {dist.phase = #dist<phase update>, dist.colocation = 2 : i64} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %u1 = nn.sub %u, %su {dist.phase = #dist<phase update>, dist.colocation = 2 : i64} : tensor<8x4xf32>
  dist.assign %u, %u1 {dist.phase = #dist<phase update>, dist.colocation = 2 : i64} : tensor<8x4xf32>
  %sb = nn.mul %gb, %lr {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %b1 = nn.sub %b, %sb {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : tensor<8xf32>
  dist.assign %b, %b1 {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : tensor<8xf32>
  %vm = nn.mul %v, %mu {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %v1 = nn.add %vm, %g {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : tensor<6x8xf32>
  %sv = nn.mul %v1, %lr {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %w1 = nn.sub %w, %sv {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : tensor<6x8xf32>
  dist.assign %w, %w1 {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : tensor<6x8xf32>
  dist.assign %v, %v1 {dist.phase = #dist<phase update>, dist.colocation = 0 : i64} : tensor<6x8xf32>
  %l = dist.accumulate %loss {dist.colocation = 3 : i64} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
