// RUN: kerf-opt %s --split-input-file --kerf-partition | FileCheck %s
// REQUIRES: kerf-opt

// Two stages, two micro-batches, a column cut and a row cut that does not divide:
// the row cut is masked and its partial sum reduced inside the stage.

// CHECK: dist.channel 0 from 0 to 1 : tensor<2x3xf32>
// CHECK: func.func private @main(tensor<4x6xf32> {dist.sharding = #s_mb_x, kerf.name = "x"})
// CHECK-LABEL: func.func @stage0_forward(
// CHECK-SAME: %[[X:.*]]: tensor<2x6xf32> {dist.from = #dist.from<input 0>, dist.global_type = tensor<4x6xf32>
// CHECK-SAME: -> (tensor<2x3xf32> {dist.global_type = tensor<4x5xf32>, {{.*}}dist.to = #dist.to<send [0]>
// CHECK-SAME: stage = 0
// CHECK: %[[W:.*]] = nn.constant {dist.global_type = tensor<6x5xf32>, dist.sharding = #s_x_tp, name = "w"} dense<1.000000e+00> : tensor<6x3xf32>
// CHECK: nn.matmul %[[X]], %[[W]] : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
// CHECK-LABEL: func.func @stage1_forward(
// CHECK-SAME: %[[H:.*]]: tensor<2x3xf32> {{.*}}dist.from = #dist.from<recv 0>
// CHECK-SAME: dist.to = #dist.to<output [0]>
// CHECK: %[[V:.*]] = nn.weight "v" {{.*}} : tensor<3x5xf32>
// CHECK: %[[M:.*]] = dist.mask %[[H]] dim 1 size 5 over ["tp"] fill 0.000000e+00 : f32 : tensor<2x3xf32>
// CHECK: %[[P:.*]] = nn.matmul %[[M]], %[[V]] : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
// CHECK: %[[R:.*]] = dist.all_reduce %[[P]] sum ["tp"] : tensor<2x5xf32> -> tensor<2x5xf32>
// CHECK: return %[[R]]
// CHECK-LABEL: dist.schedule 0 {
// CHECK-NEXT: %[[X0:.*]] = dist.input 0 micro_batch 0
// CHECK-NEXT: %[[H0:.*]] = dist.run @stage0_forward(%[[X0]]) micro_batch 0
// CHECK-NEXT: dist.send %[[H0]] channel 0 micro_batch 0
// CHECK-NEXT: dist.input 0 micro_batch 1
// CHECK-NEXT: dist.run @stage0_forward
// CHECK-NEXT: dist.send
// CHECK-LABEL: dist.schedule 1 {
// CHECK-NEXT: %[[R0:.*]] = dist.recv channel 0 micro_batch 0
// CHECK-NEXT: %[[Y0:.*]] = dist.run @stage1_forward(%[[R0]]) micro_batch 0
// CHECK-NEXT: dist.output %[[Y0]] to 0 micro_batch 0
#rows_mb = #dist.sharding<{"mb"}, {}>
#columns_tp = #dist.sharding<{}, {"tp"}>
#rows_tp = #dist.sharding<{"tp"}, {}>
#rows_mb_columns_tp = #dist.sharding<{"mb"}, {"tp"}>
#rows_mb_sum_tp = #dist.sharding<{"mb"}, {}, partial sum {"tp"}>
dist.mesh @mesh ["pp"=2, "tp"=2] time ["mb"=2]
func.func @main(%x: tensor<4x6xf32> {kerf.name = "x", dist.sharding = #rows_mb})
    -> (tensor<4x5xf32> {kerf.name = "y", dist.sharding = #rows_mb}) {
  %w = nn.constant {name = "w", dist.plan = #dist.plan<results = [#columns_tp]>} dense<1.0> : tensor<6x5xf32>
  %v = nn.weight "v" file 0 at 0 {dist.plan = #dist.plan<results = [#rows_tp]>} : tensor<5x5xf32>
  %h = nn.matmul %x, %w {dist.plan = #dist.plan<operands = [#rows_mb, #columns_tp], results = [#rows_mb_columns_tp], stage = 0>}
     : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %e = nn.exp %h {dist.plan = #dist.plan<operands = [#rows_mb_columns_tp], results = [#rows_mb_columns_tp], stage = 0>}
     : tensor<4x5xf32>
  %r = nn.matmul %e, %v {dist.plan = #dist.plan<operands = [#rows_mb_columns_tp, #rows_tp], results = [#rows_mb_sum_tp], stage = 1>}
     : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
