// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2" | FileCheck %s --check-prefix=DATA
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard=h=[{},{tp}]" | FileCheck %s --check-prefix=TENSOR
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=2 schedule=gpipe" | FileCheck %s --check-prefix=PIPE
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=2 schedule=interleaved" | FileCheck %s --check-prefix=CHUNKS
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=2 schedule=interleaved" --kerf-partition | FileCheck %s --check-prefix=FUNCTIONS
// RUN: kerf-opt %s --kerf-plan="devices=1 micro-batches=4" | FileCheck %s --check-prefix=ACCUMULATE
// RUN: kerf-opt %s --kerf-plan="devices=4 mesh=dp=2,pp=2 micro-batches=2" | FileCheck %s --check-prefix=HYBRID
// RUN: not kerf-opt %s --kerf-plan="devices=1 micro-batches=3" 2>&1 | FileCheck %s --check-prefix=DIVIDE

// Data parallel: batch dimensions are cut, gradients are partial until they
// have been accumulated, and what is assigned lies as the weight does.
// DATA: dist.mesh @mesh ["dp"=2]
// DATA: nn.weight "w" file {{.*}} {dist.plan = #p_to_x2
// DATA: nn.matmul {{.*}}dist.plan = #p_dp_x--x2_to_dp_x
// DATA: dist.accumulate {{.*}}dist.plan = #p_{{[^ ]*}}to_x2_sum-dp
// DATA: nn.mul {{.*}}dist.plan = #p_x2--s_to
// DATA: dist.assign {{.*}}dist.plan = #p_x2--x2

// Columns, then rows; the gradients of both weights lie as the weights do.
// TENSOR: nn.weight "w" file {{.*}} {dist.plan = #p_to_x_tp
// TENSOR: nn.weight "u" file {{.*}} {dist.plan = #p_to_tp_x
// TENSOR: nn.state "momentum/w" {dist.plan = #p_to_x_tp
// TENSOR: dist.accumulate {{.*}}dist.plan = #p_tp_x_to_tp_x

// A pipeline: stages by colocation; the prologue reads all labels, the forward
// its micro-batch.
// PIPE: dist.schedule_kind = #dist<schedule_kind gpipe>
// PIPE: dist.mesh @mesh ["pp"=2] time ["mb"=2]
// PIPE: kerf.name = "x"
// PIPE-SAME: tensor<8x4xf32> {dist.sharding = #s_x2, kerf.batch_dim = 0 : i64, kerf.name = "labels"}
// PIPE: nn.reduce {{.*}}dist.plan = #p1_x2_to_s, dist.step = #prologue_3_statistics
// PIPE: nn.matmul {{.*}}dist.plan = #p0_
// PIPE: nn.sub {{.*}}dist.plan = #p{{[0-9]*}}_mb_x--mb_x_to
// PIPE: nn.reduce {{.*}}dist.plan = #p1_{{[^ ]*}}to_sum-mb
// PIPE: dist.accumulate {{.*}}dist.plan = #p1_x2_sum-mb_to_x2
// PIPE: nn.reduce {{.*}}dist.plan = #p0_{{[^ ]*}}to_x_sum-mb, dist.step = #backward_weight_0
// PIPE: dist.assign {{.*}}dist.plan = #p0_

// Chunks: the first of the four layers and the third are in stage 0, the others in stage 1.
// CHUNKS: dist.chunks = 2 : i64, dist.schedule_kind = #dist<schedule_kind interleaved>
// CHUNKS: dist.mesh @mesh ["pp"=2] time ["mb"=2]
// CHUNKS: nn.matmul {{.*}}dist.plan = #p0_
// CHUNKS: dist.plan = #p1_
// CHUNKS: dist.plan = #p0c1_
// CHUNKS: dist.plan = #p1c1_
// FUNCTIONS: func.func @stage0_chunk1_forward(
// FUNCTIONS: func.func @stage1_chunk1_backward(

// ACCUMULATE: dist.mesh @mesh [] time ["mb"=4]
// ACCUMULATE: dist.accumulate {{.*}}dist.plan = #p{{[0-9]*}}_x2_sum-mb_to

// The sum over devices comes once per step, behind the sum over micro-batches.
// HYBRID: dist.mesh @mesh ["pp"=2, "dp"=2] time ["mb"=2]
// HYBRID: dist.accumulate {{.*}}dist.plan = #p{{[0-9]*}}_x2_sum-dp-mb_to_x2_sum-dp

// DIVIDE: option micro-batches: 3 does not divide the batch of 8, which 2, 4 and 8 do

func.func @main(%x: tensor<8x6xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64},
                %labels: tensor<8x4xf32> {kerf.name = "labels", kerf.batch_dim = 0 : i64},
                %lr: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<6x8xf32>
  %b = nn.weight "b" file 0 at 192 {variable} : tensor<8xf32>
  %u = nn.weight "u" file 0 at 224 {variable} : tensor<8x4xf32>
  %v = nn.state "momentum/w" {init = 0.0 : f32} : tensor<6x8xf32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %absl = nn.mul %labels, %labels {dist.step = #dist.step<prologue, colocation 3>} : tensor<8x4xf32>
  %n = nn.reduce sum %absl dims [0, 1] {dist.step = #dist.step<prologue, colocation 3, statistics>} : (tensor<8x4xf32>) -> tensor<f32>
  %some = nn.max %n, %one {dist.step = #dist.step<prologue, colocation 3>} : tensor<f32>
  %inv = nn.div %one, %some {dist.step = #dist.step<prologue, colocation 3>} : tensor<f32>
  // forward
  %h0 = nn.matmul %x, %w {dist.step = #dist.step<forward, colocation 0>} : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %h1 = nn.add %h0, %b {dist.step = #dist.step<forward, colocation 0>} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %h = nn.relu %h1 {dist.step = #dist.step<forward, colocation 1>} : tensor<8x8xf32> loc("h")
  %y = nn.matmul %h, %u {dist.step = #dist.step<forward, colocation 2>} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = nn.sub %y, %labels {dist.step = #dist.step<forward, colocation 3>} : tensor<8x4xf32>
  %d2 = nn.mul %d, %d {dist.step = #dist.step<forward, colocation 3>} : tensor<8x4xf32>
  %sum = nn.reduce sum %d2 dims [0, 1] {dist.step = #dist.step<forward, colocation 3, statistics>} : (tensor<8x4xf32>) -> tensor<f32>
  %loss = nn.mul %sum, %inv {dist.step = #dist.step<forward, colocation 3>} : tensor<f32>
  // backward
  %dy = nn.mul %d, %inv {dist.step = #dist.step<backward_input, colocation 3>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %du = nn.matmul %h, %dy {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 2>} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %gu = dist.accumulate %du {dist.step = #dist.step<backward_weight, colocation 2, gradient>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %dh = nn.matmul %dy, %u {transpose_rhs, dist.step = #dist.step<backward_input, colocation 2>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %dh1 = nn.mul %dh, %h1 {dist.step = #dist.step<backward_input, colocation 1>} : tensor<8x8xf32>
  %db = nn.reduce sum %dh1 dims [0] {dist.step = #dist.step<backward_weight, colocation 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %gb = dist.accumulate %db {dist.step = #dist.step<backward_weight, colocation 0, gradient>} : (tensor<8xf32>) -> tensor<8xf32>
  %dw = nn.matmul %x, %dh1 {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>} : (tensor<8x6xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %g = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>} : (tensor<6x8xf32>) -> tensor<6x8xf32>
  // update
  %su = nn.mul %gu, %lr {dist.step = #dist.step<update, colocation 2>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %u1 = nn.sub %u, %su {dist.step = #dist.step<update, colocation 2>} : tensor<8x4xf32>
  dist.assign %u, %u1 {dist.step = #dist.step<update, colocation 2>} : tensor<8x4xf32>
  %sb = nn.mul %gb, %lr {dist.step = #dist.step<update, colocation 0>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %b1 = nn.sub %b, %sb {dist.step = #dist.step<update, colocation 0>} : tensor<8xf32>
  dist.assign %b, %b1 {dist.step = #dist.step<update, colocation 0>} : tensor<8xf32>
  %vm = nn.mul %v, %mu {dist.step = #dist.step<update, colocation 0>} : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %v1 = nn.add %vm, %g {dist.step = #dist.step<update, colocation 0>} : tensor<6x8xf32>
  %sv = nn.mul %v1, %lr {dist.step = #dist.step<update, colocation 0>} : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %w1 = nn.sub %w, %sv {dist.step = #dist.step<update, colocation 0>} : tensor<6x8xf32>
  dist.assign %w, %w1 {dist.step = #dist.step<update, colocation 0>} : tensor<6x8xf32>
  dist.assign %v, %v1 {dist.step = #dist.step<update, colocation 0>} : tensor<6x8xf32>
  %l = dist.accumulate %loss {dist.step = #dist.step<forward, colocation 3>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
