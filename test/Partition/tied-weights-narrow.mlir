// RUN: kerf-opt %s --kerf-partition | FileCheck %s
// REQUIRES: kerf-opt

// A gradient that is sent as bfloat16: what crosses from the stage that makes a part of it is a sum over
// micro-batches in float32, cast there and cast back where it is added.

// CHECK-DAG: dist.channel [[$V:.*]] from 0 to 1 purpose parameter phase update : tensor<3x3xf32>
// CHECK-DAG: dist.channel [[$G:.*]] from 1 to 0 purpose gradient phase update : tensor<3x3xbf16>
// CHECK-LABEL: func.func @stage0_update1(
// CHECK-SAME: dist.from = #dist.from<recv [[$G]]>
// CHECK: %[[W:.*]] = nn.cast %{{.*}} : (tensor<3x3xbf16>) -> tensor<3x3xf32>
// CHECK: nn.add {{.*}}%[[W]]
// CHECK: dist.assign
// CHECK-LABEL: func.func @stage1_update0(
// CHECK: %[[N:.*]] = nn.cast %{{.*}} {dist.step = #update, kerf.transfer_cast} : (tensor<3x3xf32>) -> tensor<3x3xbf16>
// CHECK: return %[[N]]
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
  %n = nn.cast %g {dist.step = #dist.step<update, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix], results = [#matrix], stage = 0>, kerf.transfer_cast} : (tensor<3x3xf32>) -> tensor<3x3xbf16>
  %b = nn.cast %n {dist.step = #dist.step<update, colocation 0, gradient>,
     dist.plan = #dist.plan<operands = [#matrix], results = [#matrix], stage = 0>} : (tensor<3x3xbf16>) -> tensor<3x3xf32>
  %v = nn.sub %w, %b {dist.step = #dist.step<update, colocation 0>,
     dist.plan = #dist.plan<operands = [#matrix, #matrix], results = [#matrix], stage = 0>} : tensor<3x3xf32>
  dist.assign %w, %v {dist.step = #dist.step<update, colocation 0>, dist.plan = #dist.plan<operands = [#matrix, #matrix], stage = 0>} : tensor<3x3xf32>
  return
}
