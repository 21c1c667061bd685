// RUN: kerf-opt %s --split-input-file --kerf-partition | FileCheck %s
// REQUIRES: kerf-opt

// One stage, one micro-batch: one function; the sum over micro-batches is gone, the gradient
// is summed over the ranks where the update wants it, the parameter is assigned.

// CHECK-LABEL: func.func @stage0_step(
// CHECK: %[[W:.*]] = nn.weight "w0"
// CHECK: %[[DW:.*]] = nn.matmul {{.*}} {dist.step = #backward_weight, transpose_lhs}
// CHECK: %[[G:.*]] = dist.all_reduce %[[DW]] sum ["dp"] purpose gradient phase update
// CHECK: %[[S:.*]] = nn.mul %[[G]]
// CHECK: %[[V:.*]] = nn.sub %[[W]], %[[S]]
// CHECK: dist.assign %[[W]], %[[V]] {dist.step = #update} : tensor<6x5xf32>
// CHECK: dist.all_reduce {{.*}} purpose statistics phase update : tensor<f32>
// CHECK-NOT: dist.accumulate
#rows_dp = #dist.sharding<{"dp"}, {}>
#scalar = #dist.sharding<>
#matrix = #dist.sharding<{}, {}>
#scalar_sum_dp = #dist.sharding<partial sum {"dp"}>
#matrix_sum_dp = #dist.sharding<{}, {}, partial sum {"dp"}>
dist.mesh @mesh ["dp"=2]
func.func @main(%x: tensor<8x6xf32> {kerf.name = "x", dist.sharding = #rows_dp},
                %t: tensor<8x5xf32> {kerf.name = "t", dist.sharding = #rows_dp},
                %lr: tensor<f32> {kerf.name = "train.learning_rate", dist.sharding = #scalar})
    -> (tensor<f32> {kerf.name = "loss", dist.sharding = #scalar}) {
  %w = nn.weight "w0" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<6x5xf32>
  %h = nn.matmul %x, %w {dist.step = #dist.step<forward, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_dp, #matrix], results = [#rows_dp]>} : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  %d = nn.sub %h, %t {dist.step = #dist.step<forward, colocation 1>, dist.plan = #dist.plan<operands = [#rows_dp, #rows_dp], results = [#rows_dp]>}
     : tensor<8x5xf32>
  %q = nn.mul %d, %d {dist.step = #dist.step<forward, colocation 1>, dist.plan = #dist.plan<operands = [#rows_dp, #rows_dp], results = [#rows_dp]>}
     : tensor<8x5xf32>
  %s = nn.reduce sum %q dims [0, 1] {dist.step = #dist.step<forward, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#rows_dp], results = [#scalar_sum_dp]>}
     : (tensor<8x5xf32>) -> tensor<f32>
  %dw = nn.matmul %x, %d {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_dp, #rows_dp], results = [#matrix_sum_dp]>} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %g = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_dp], results = [#matrix_sum_dp]>} : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %step = nn.mul %g, %lr {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #scalar], results = [#matrix]>} : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %w1 = nn.sub %w, %step {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix]>}
     : tensor<6x5xf32>
  dist.assign %w, %w1 {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix]>} : tensor<6x5xf32>
  %l = dist.accumulate %s {dist.step = #dist.step<forward, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#scalar_sum_dp], results = [#scalar_sum_dp]>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// The same with two micro-batches: sums over them begin with zeros and stay in their slots; the last micro-batch
// and the update are one function, in which the gradient's sum over ranks can start behind its gradient.

// CHECK-LABEL: func.func @stage0_forward_backward(
// CHECK-SAME: %[[A0:[^:]*]]: tensor<6x5xf32> {dist.from = #dist.from<accumulator 0>
// CHECK-SAME: %[[A1:[^:]*]]: tensor<f32> {dist.from = #dist.from<accumulator 1>
// CHECK-SAME: dist.to = #dist.to<keep [0]>
// CHECK-SAME: dist.to = #dist.to<keep [1]>
// CHECK: %[[S0:.*]] = dist.accumulate %{{.*}} into %[[A0]]
// CHECK: %[[S1:.*]] = dist.accumulate %{{.*}} into %[[A1]]
// CHECK: return %[[S0]], %[[S1]]
// CHECK-LABEL: func.func @stage0_forward_backward_update0(
// CHECK-SAME: %[[A0:[^:]*]]: tensor<6x5xf32> {dist.from = #dist.from<accumulator 0>
// CHECK-SAME: %[[A1:[^:]*]]: tensor<f32> {dist.from = #dist.from<accumulator 1>
// CHECK-SAME: dist.from = #dist.from<input 2>
// CHECK: %[[S0:.*]] = dist.accumulate %{{.*}} into %[[A0]]
// CHECK: %[[S1:.*]] = dist.accumulate %{{.*}} into %[[A1]]
// CHECK: dist.all_reduce %[[S0]] sum ["dp"] purpose gradient phase update
// CHECK: dist.assign
// CHECK: %[[L:.*]] = dist.all_reduce %[[S1]] sum ["dp"] purpose statistics phase update
// CHECK: return %[[S0]], %[[S1]], %[[L]]
// CHECK-LABEL: dist.schedule 0 {
// CHECK: %[[Z0:.*]] = dist.zero : tensor<6x5xf32>
// CHECK: %[[Z1:.*]] = dist.zero : tensor<f32>
// CHECK: %[[R0:.*]]:2 = dist.run @stage0_forward_backward({{.*}}, %[[Z0]], %[[Z1]]) micro_batch 0
// CHECK: %[[R1:.*]]:3 = dist.run @stage0_forward_backward_update0({{.*}}, %[[R0]]#0, %[[R0]]#1, %{{.*}}) micro_batch 1
// CHECK: dist.output %[[R1]]#2 to 0
// CHECK-NOT: dist.run
#rows_mb_dp = #dist.sharding<{"mb", "dp"}, {}>
#scalar = #dist.sharding<>
#matrix = #dist.sharding<{}, {}>
#scalar_sum_mb_dp = #dist.sharding<partial sum {"mb", "dp"}>
#matrix_sum_mb_dp = #dist.sharding<{}, {}, partial sum {"mb", "dp"}>
#matrix_sum_dp = #dist.sharding<{}, {}, partial sum {"dp"}>
#scalar_sum_dp = #dist.sharding<partial sum {"dp"}>
dist.mesh @mesh ["dp"=2] time ["mb"=2]
func.func @main(%x: tensor<8x6xf32> {kerf.name = "x", dist.sharding = #rows_mb_dp},
                %t: tensor<8x5xf32> {kerf.name = "t", dist.sharding = #rows_mb_dp},
                %lr: tensor<f32> {kerf.name = "train.learning_rate", dist.sharding = #scalar})
    -> (tensor<f32> {kerf.name = "loss", dist.sharding = #scalar}) {
  %w = nn.weight "w0" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<6x5xf32>
  %h = nn.matmul %x, %w {dist.step = #dist.step<forward, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #matrix], results = [#rows_mb_dp]>} : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  %d = nn.sub %h, %t {dist.step = #dist.step<forward, colocation 1>, dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#rows_mb_dp]>}
     : tensor<8x5xf32>
  %q = nn.mul %d, %d {dist.step = #dist.step<forward, colocation 1>, dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#rows_mb_dp]>}
     : tensor<8x5xf32>
  %s = nn.reduce sum %q dims [0, 1] {dist.step = #dist.step<forward, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp], results = [#scalar_sum_mb_dp]>}
     : (tensor<8x5xf32>) -> tensor<f32>
  %dw = nn.matmul %x, %d {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#matrix_sum_mb_dp]>} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %g = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb_dp], results = [#matrix_sum_dp]>} : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %step = nn.mul %g, %lr {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #scalar], results = [#matrix]>} : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %w1 = nn.sub %w, %step {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix]>}
     : tensor<6x5xf32>
  dist.assign %w, %w1 {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix]>} : tensor<6x5xf32>
  %l = dist.accumulate %s {dist.step = #dist.step<forward, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#scalar_sum_mb_dp], results = [#scalar_sum_dp]>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Two stages, 1F1B, clipped by a norm of both: the squares of stage 0 go to stage 1, what
// scales comes back. Stage 0 keeps its activation for the backward pass (under the name by
// which it is sent); inputs are read again.

// CHECK-DAG: dist.channel [[$DH:.*]] from 1 to 0 phase backward_input : tensor<2x3xf32>
// CHECK-DAG: dist.channel [[$R:.*]] from 1 to 0 purpose statistics phase update : tensor<f32>
// CHECK-DAG: dist.channel [[$H:.*]] from 0 to 1 : tensor<2x3xf32>
// CHECK-DAG: dist.channel [[$N:.*]] from 0 to 1 purpose statistics phase update : tensor<f32>
// CHECK-LABEL: func.func @stage0_forward(
// CHECK-SAME: dist.to = #dist.to<send {{\[}}[[$H]]{{\]}}, keep [0]>
// CHECK-LABEL: func.func @stage0_backward(
// CHECK-SAME: dist.from = #dist.from<recv [[$DH]]>
// CHECK-SAME: dist.from = #dist.from<input 0>
// CHECK-SAME: dist.from = #dist.from<kept 0>
// CHECK-SAME: dist.from = #dist.from<accumulator 0>
// CHECK-LABEL: func.func @stage0_update0(
// CHECK-SAME: dist.to = #dist.to<send {{\[}}[[$N]]{{\]}}>
// CHECK-NOT: func.func @stage0_update1
// CHECK-LABEL: func.func @stage0_update2(
// CHECK-SAME: dist.from = #dist.from<recv [[$R]]>
// CHECK: dist.assign
// CHECK-LABEL: func.func @stage1_forward(
// CHECK-LABEL: func.func @stage1_backward(
// CHECK-LABEL: func.func @stage1_update0(
// CHECK-SAME: dist.to = #dist.to<output [0]>
// CHECK-LABEL: func.func @stage1_update1(
// CHECK-SAME: dist.from = #dist.from<recv [[$N]]>
// CHECK-SAME: dist.to = #dist.to<send {{\[}}[[$R]]{{\]}}>
// CHECK: dist.assign
// CHECK-LABEL: dist.schedule 0 {
// CHECK: dist.run @stage0_forward{{.*}} micro_batch 0
// CHECK: dist.run @stage0_forward{{.*}} micro_batch 1
// CHECK: dist.run @stage0_backward{{.*}} micro_batch 0
// CHECK: dist.run @stage0_backward{{.*}} micro_batch 1
// CHECK: dist.run @stage0_update0
// CHECK: dist.send {{.*}} channel [[$N]]
// CHECK: dist.recv channel [[$R]]
// CHECK: dist.run @stage0_update2
// CHECK-LABEL: dist.schedule 1 {
// CHECK: %[[A:.*]] = dist.recv channel [[$H]] micro_batch 0
// CHECK: %[[F:.*]]:2 = dist.run @stage1_forward(%[[A]]
// CHECK: dist.run @stage1_backward(%[[A]], %[[F]]#0
// CHECK: dist.run @stage1_forward{{.*}} micro_batch 1
#rows_mb = #dist.sharding<{"mb"}, {}>
#scalar = #dist.sharding<>
#matrix = #dist.sharding<{}, {}>
#scalar_sum_mb = #dist.sharding<partial sum {"mb"}>
#matrix_sum_mb = #dist.sharding<{}, {}, partial sum {"mb"}>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<4x3xf32> {kerf.name = "x", dist.sharding = #rows_mb}, %lr: tensor<f32> {kerf.name = "train.learning_rate", dist.sharding = #scalar})
    -> (tensor<f32> {kerf.name = "loss", dist.sharding = #scalar}) {
  %w0 = nn.weight "w0" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<3x3xf32>
  %w1 = nn.weight "w1" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<3x3xf32>
  %h = nn.matmul %x, %w0 {dist.step = #dist.step<forward, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb, #matrix], results = [#rows_mb], stage = 0>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %t = nn.tanh %h {dist.step = #dist.step<forward, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb], results = [#rows_mb], stage = 0>} : tensor<4x3xf32>
  %y = nn.matmul %t, %w1 {dist.step = #dist.step<forward, colocation 2>,
     dist.plan = #dist.plan<operands = [#rows_mb, #matrix], results = [#rows_mb], stage = 1>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %q = nn.mul %y, %y {dist.step = #dist.step<forward, colocation 3>,
     dist.plan = #dist.plan<operands = [#rows_mb, #rows_mb], results = [#rows_mb], stage = 1>} : tensor<4x3xf32>
  %s = nn.reduce sum %q dims [0, 1] {dist.step = #dist.step<forward, colocation 4, statistics>,
     dist.plan = #dist.plan<operands = [#rows_mb], results = [#scalar_sum_mb], stage = 1>} : (tensor<4x3xf32>) -> tensor<f32>
  %dt = nn.matmul %y, %w1 {transpose_rhs, dist.step = #dist.step<backward_input, colocation 2>,
     dist.plan = #dist.plan<operands = [#rows_mb, #matrix], results = [#rows_mb], stage = 1>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %dw1 = nn.matmul %t, %y {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 2>,
     dist.plan = #dist.plan<operands = [#rows_mb, #rows_mb], results = [#matrix_sum_mb], stage = 1>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %dh = nn.mul %dt, %t {dist.step = #dist.step<backward_input, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb, #rows_mb], results = [#rows_mb], stage = 0>} : tensor<4x3xf32>
  %dw0 = nn.matmul %x, %dh {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb, #rows_mb], results = [#matrix_sum_mb], stage = 0>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %g0 = dist.accumulate %dw0 {dist.step = #dist.step<backward_weight, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb], results = [#matrix], stage = 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %g1 = dist.accumulate %dw1 {dist.step = #dist.step<backward_weight, colocation 2, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb], results = [#matrix], stage = 1>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %sq0 = nn.mul %g0, %g0 {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix], stage = 0>} : tensor<3x3xf32>
  %n0 = nn.reduce sum %sq0 dims [0, 1] {dist.step = #dist.step<update, colocation 0, statistics>,
     dist.plan = #dist.plan<operands = [#matrix], results = [#scalar], stage = 0>} : (tensor<3x3xf32>) -> tensor<f32>
  %sq1 = nn.mul %g1, %g1 {dist.step = #dist.step<update, colocation 2>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix], stage = 1>} : tensor<3x3xf32>
  %n1 = nn.reduce sum %sq1 dims [0, 1] {dist.step = #dist.step<update, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#matrix], results = [#scalar], stage = 1>} : (tensor<3x3xf32>) -> tensor<f32>
  %n = nn.add %n0, %n1 {dist.step = #dist.step<update, colocation 4, statistics>,
     dist.plan = #dist.plan<operands = [#scalar, #scalar], results = [#scalar], stage = 1>} : tensor<f32>
  %r = nn.rsqrt %n {dist.step = #dist.step<update, colocation 4, statistics>,
     dist.plan = #dist.plan<operands = [#scalar], results = [#scalar], stage = 1>} : tensor<f32>
  %c0 = nn.mul %g0, %r {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #scalar], results = [#matrix], stage = 0>} : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %d0 = nn.mul %c0, %lr {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #scalar], results = [#matrix], stage = 0>} : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %v0 = nn.sub %w0, %d0 {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix], stage = 0>} : tensor<3x3xf32>
  dist.assign %w0, %v0 {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix], stage = 0>} : tensor<3x3xf32>
  %c1 = nn.mul %g1, %r {dist.step = #dist.step<update, colocation 2>,
     dist.plan = #dist.plan<operands = [#matrix, #scalar], results = [#matrix], stage = 1>} : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %d1 = nn.mul %c1, %lr {dist.step = #dist.step<update, colocation 2>,
     dist.plan = #dist.plan<operands = [#matrix, #scalar], results = [#matrix], stage = 1>} : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %v1 = nn.sub %w1, %d1 {dist.step = #dist.step<update, colocation 2>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix], stage = 1>} : tensor<3x3xf32>
  dist.assign %w1, %v1 {dist.step = #dist.step<update, colocation 2>, dist.plan = #dist.plan<operands = [#matrix, #matrix], stage = 1>} : tensor<3x3xf32>
  %l = dist.accumulate %s {dist.step = #dist.step<forward, colocation 4, statistics>,
     dist.plan = #dist.plan<operands = [#scalar_sum_mb], results = [#scalar], stage = 1>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
