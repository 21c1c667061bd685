// RUN: kerf-opt %s --partition | FileCheck %s
// REQUIRES: kerf-opt

// One weight in two stages: each sums its gradient over the micro-batches, the sum of stage 1
// crosses once, stage 0 updates, stage 1 gets the new value and assigns it too.

// CHECK-DAG: dist.channel [[$V:.*]] from 0 to 1 purpose parameter phase update : tensor<3x3xf32>
// CHECK-DAG: dist.channel [[$G:.*]] from 1 to 0 purpose gradient phase update : tensor<3x3xf32>
// CHECK-LABEL: func.func @stage0_update1(
// CHECK-SAME: dist.recv = [[$G]]
// CHECK-SAME: dist.send = array<i64: [[$V]]>
// CHECK: nn.add
// CHECK: dist.assign
// CHECK-LABEL: func.func @stage1_update2(
// CHECK-SAME: dist.recv = [[$V]]
// CHECK: %[[W:.*]] = nn.weight "w0"
// CHECK: dist.assign %[[W]], %arg0
// CHECK-LABEL: dist.schedule 1 {
// CHECK: dist.run @stage1_backward{{.*}} micro_batch 1
// CHECK: dist.run @stage1_update0
// CHECK-NEXT: dist.send {{.*}} channel [[$G]]
// CHECK-NEXT: dist.recv channel [[$V]]
// CHECK-NEXT: dist.run @stage1_update2
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<4x3xf32> {kerf.name = "x", dist.sharding = #dist.sharding<{"mb"}, {}>}) {
  %w = nn.weight "w0" file 0 at 0 {variable, dist.results = [#dist.sharding<{}, {}>]} : tensor<3x3xf32>
  %h = nn.matmul %x, %w {dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{}, {}>], dist.results = [#dist.sharding<{"mb"}, {}>]} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %y = nn.matmul %h, %w {dist.colocation = 1 : i64, dist.stage = 1 : i64, dist.operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{}, {}>], dist.results = [#dist.sharding<{"mb"}, {}>]} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %dh = nn.matmul %y, %w {transpose_rhs, dist.phase = #dist<phase backward_input>, dist.colocation = 1 : i64, dist.stage = 1 : i64, dist.operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{}, {}>], dist.results = [#dist.sharding<{"mb"}, {}>]} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %dw1 = nn.matmul %h, %y {transpose_lhs, dist.phase = #dist<phase backward_weight>, dist.colocation = 1 : i64, dist.stage = 1 : i64, dist.operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{"mb"}, {}>], dist.results = [#dist.sharding<{}, {}, partial sum {"mb"}>]} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %dw0 = nn.matmul %x, %dh {transpose_lhs, dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{"mb"}, {}>], dist.results = [#dist.sharding<{}, {}, partial sum {"mb"}>]} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %dw = nn.add %dw1, %dw0 {dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{}, {}, partial sum {"mb"}>, #dist.sharding<{}, {}, partial sum {"mb"}>], dist.results = [#dist.sharding<{}, {}, partial sum {"mb"}>]} : tensor<3x3xf32>
  %g = dist.accumulate %dw {dist.phase = #dist<phase backward_weight>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.purpose = #dist<purpose gradient>, dist.operands = [#dist.sharding<{}, {}, partial sum {"mb"}>], dist.results = [#dist.sharding<{}, {}>]} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %v = nn.sub %w, %g {dist.phase = #dist<phase update>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{}, {}>, #dist.sharding<{}, {}>], dist.results = [#dist.sharding<{}, {}>]} : tensor<3x3xf32>
  dist.assign %w, %v {dist.phase = #dist<phase update>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{}, {}>, #dist.sharding<{}, {}>]} : tensor<3x3xf32>
  return
}
