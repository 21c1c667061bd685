// RUN: kerf-opt %s --kerf-partition | FileCheck %s
// REQUIRES: kerf-opt

// One weight in two stages: each sums its gradient over the micro-batches, the sum of stage 1
// crosses once, stage 0 updates, stage 1 gets the new value and assigns it too.

// CHECK-DAG: dist.channel [[$V:.*]] from 0 to 1 purpose parameter phase update : tensor<3x3xf32>
// CHECK-DAG: dist.channel [[$G:.*]] from 1 to 0 purpose gradient phase update : tensor<3x3xf32>
// CHECK-LABEL: func.func @stage0_update1(
// CHECK-SAME: dist.from = #dist.from<recv [[$G]]>
// CHECK-SAME: dist.to = #dist.to<send {{\[}}[[$V]]{{\]}}>
// CHECK: nn.add
// CHECK: dist.assign
// CHECK-LABEL: func.func @stage1_update2(
// CHECK-SAME: dist.from = #dist.from<recv [[$V]]>
// CHECK: %[[W:.*]] = nn.weight "w0"
// CHECK: dist.assign %[[W]], %arg0
// CHECK-LABEL: dist.schedule 1 {
// CHECK: dist.run @stage1_backward{{.*}} micro_batch 1
// CHECK: dist.run @stage1_update0
// CHECK-NEXT: dist.send {{.*}} channel [[$G]]
// CHECK-NEXT: dist.recv channel [[$V]]
// CHECK-NEXT: dist.run @stage1_update2
#rows_mb = #dist.sharding<{"mb"}, {}>
#matrix = #dist.sharding<{}, {}>
#matrix_sum_mb = #dist.sharding<{}, {}, partial sum {"mb"}>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<4x3xf32> {kerf.name = "x", dist.sharding = #rows_mb}) {
  %w = nn.weight "w0" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#matrix]>} : tensor<3x3xf32>
  %h = nn.matmul %x, %w {dist.step = #dist.step<forward, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb, #matrix], results = [#rows_mb], stage = 0>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %y = nn.matmul %h, %w {dist.step = #dist.step<forward, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb, #matrix], results = [#rows_mb], stage = 1>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %dh = nn.matmul %y, %w {transpose_rhs, dist.step = #dist.step<backward_input, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb, #matrix], results = [#rows_mb], stage = 1>} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %dw1 = nn.matmul %h, %y {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 1>,
     dist.plan = #dist.plan<operands = [#rows_mb, #rows_mb], results = [#matrix_sum_mb], stage = 1>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %dw0 = nn.matmul %x, %dh {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#rows_mb, #rows_mb], results = [#matrix_sum_mb], stage = 0>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %dw = nn.add %dw1, %dw0 {dist.step = #dist.step<backward_weight, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb, #matrix_sum_mb], results = [#matrix_sum_mb], stage = 0>} : tensor<3x3xf32>
  %g = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix_sum_mb], results = [#matrix], stage = 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %v = nn.sub %w, %g {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix], stage = 0>} : tensor<3x3xf32>
  dist.assign %w, %v {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix], stage = 0>} : tensor<3x3xf32>
  return
}
