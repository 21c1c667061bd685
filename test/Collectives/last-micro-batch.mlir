// RUN: kerf-opt %s --kerf-partition --kerf-bucket-collectives=gradient-bytes=1 --kerf-overlap-collectives=only-gradients | FileCheck %s
// REQUIRES: kerf-opt

// Two micro-batches: the last one's backward pass and the update are one function, in which the sum over ranks of the
// second layer's gradient starts before the first layer's is made, and is waited for where the update reads it.

// CHECK-LABEL: func.func @stage0_forward_backward(
// CHECK-NOT: dist.all_reduce
// CHECK-LABEL: func.func @stage0_forward_backward_update0(
// CHECK: %[[G1:.*]] = dist.accumulate
// CHECK: %[[P1:.*]] = dist.all_reduce %[[G1]] sum ["dp"] purpose gradient {{.*}} -> !dist.pending
// CHECK: nn.matmul {{.*}} {dist.step = #backward_weight, transpose_lhs}
// CHECK: %[[G0:.*]] = dist.accumulate
// CHECK: %[[P0:.*]] = dist.all_reduce %[[G0]] sum ["dp"] purpose gradient
// CHECK: dist.wait %[[P1]]
// CHECK: dist.assign
// CHECK: dist.schedule 0
// CHECK: dist.run @stage0_forward_backward({{.*}}) micro_batch 0
// CHECK: dist.run @stage0_forward_backward_update0({{.*}}) micro_batch 1
#rows_mb_dp = #dist.sharding<{"mb", "dp"}, {}>
#scalar = #dist.sharding<>
#matrix = #dist.sharding<{}, {}>
#matrix_sum_mb_dp = #dist.sharding<{}, {}, partial sum {"mb", "dp"}>
#matrix_sum_dp = #dist.sharding<{}, {}, partial sum {"dp"}>
#scalar_sum_mb_dp = #dist.sharding<partial sum {"mb", "dp"}>
#scalar_sum_dp = #dist.sharding<partial sum {"dp"}>
dist.mesh @mesh ["dp"=2] time ["mb"=2]
func.func @main(%x: tensor<8x6xf32> {kerf.name = "x", dist.sharding = #rows_mb_dp},
                %t: tensor<8x3xf32> {kerf.name = "t", dist.sharding = #rows_mb_dp})
    -> (tensor<f32> {kerf.name = "loss", dist.sharding = #scalar}) {
  %w0 = nn.weight "w0" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<6x5xf32>
  %w1 = nn.weight "w1" file 0 at 1000 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<5x3xf32>
  %h = nn.matmul %x, %w0 {dist.step = #dist.step<forward, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #matrix], results = [#rows_mb_dp]>} : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  %y = nn.matmul %h, %w1 {dist.step = #dist.step<forward, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #matrix], results = [#rows_mb_dp]>} : (tensor<8x5xf32>, tensor<5x3xf32>) -> tensor<8x3xf32>
  %d = nn.sub %y, %t {dist.step = #dist.step<forward, colocation 2>, dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#rows_mb_dp]>}
     : tensor<8x3xf32>
  %dw1 = nn.matmul %h, %d {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#matrix_sum_mb_dp]>} : (tensor<8x5xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  %g1 = dist.accumulate %dw1 {dist.step = #dist.step<backward_weight, colocation 1, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb_dp], results = [#matrix_sum_dp]>} : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %dh = nn.matmul %d, %w1 {transpose_rhs, dist.step = #dist.step<backward_input, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #matrix], results = [#rows_mb_dp]>} : (tensor<8x3xf32>, tensor<5x3xf32>) -> tensor<8x5xf32>
  %dw0 = nn.matmul %x, %dh {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#matrix_sum_mb_dp]>} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %g0 = dist.accumulate %dw0 {dist.step = #dist.step<backward_weight, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb_dp], results = [#matrix_sum_dp]>} : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %n1 = nn.sub %w1, %g1 {dist.step = #dist.step<update, colocation 1>, dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix]>}
     : tensor<5x3xf32>
  dist.assign %w1, %n1 {dist.step = #dist.step<update, colocation 1>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix]>} : tensor<5x3xf32>
  %n0 = nn.sub %w0, %g0 {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix]>}
     : tensor<6x5xf32>
  dist.assign %w0, %n0 {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix]>} : tensor<6x5xf32>
  %q = nn.mul %d, %d {dist.step = #dist.step<forward, colocation 2>, dist.plan = #dist.plan<operands = [#rows_mb_dp, #rows_mb_dp], results = [#rows_mb_dp]>}
     : tensor<8x3xf32>
  %s = nn.reduce sum %q dims [0, 1] {dist.step = #dist.step<forward, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#rows_mb_dp], results = [#scalar_sum_mb_dp]>}
     : (tensor<8x3xf32>) -> tensor<f32>
  %l = dist.accumulate %s {dist.step = #dist.step<forward, colocation 2, statistics>,
     dist.plan = #dist.plan<operands = [#scalar_sum_mb_dp], results = [#scalar_sum_dp]>} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
