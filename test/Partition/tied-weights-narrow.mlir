// RUN: kerf-opt %s --partition | FileCheck %s
// REQUIRES: kerf-opt

// A gradient that is sent as bfloat16: what crosses from the stage that makes a part of it is a sum over
// micro-batches in float32, cast there and cast back where it is added.

// CHECK-DAG: dist.channel [[$V:.*]] from 0 to 1 purpose parameter phase update : tensor<3x3xf32>
// CHECK-DAG: dist.channel [[$G:.*]] from 1 to 0 purpose gradient phase update : tensor<3x3xbf16>
// CHECK-LABEL: func.func @stage0_update1(
// CHECK-SAME: dist.recv = [[$G]]
// CHECK: %[[W:.*]] = nn.cast %{{.*}} : (tensor<3x3xbf16>) -> tensor<3x3xf32>
// CHECK: nn.add {{.*}}%[[W]]
// CHECK: dist.assign
// CHECK-LABEL: func.func @stage1_update0(
// CHECK: %[[N:.*]] = nn.cast %{{.*}} {kerf.as_made} : (tensor<3x3xf32>) -> tensor<3x3xbf16>
// CHECK: return %[[N]]
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
  %n = nn.cast %g {dist.phase = #dist<phase update>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.purpose = #dist<purpose gradient>, kerf.as_made, dist.operands = [#dist.sharding<{}, {}>], dist.results = [#dist.sharding<{}, {}>]} : (tensor<3x3xf32>) -> tensor<3x3xbf16>
  %b = nn.cast %n {dist.phase = #dist<phase update>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.purpose = #dist<purpose gradient>, dist.operands = [#dist.sharding<{}, {}>], dist.results = [#dist.sharding<{}, {}>]} : (tensor<3x3xbf16>) -> tensor<3x3xf32>
  %v = nn.sub %w, %b {dist.phase = #dist<phase update>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{}, {}>, #dist.sharding<{}, {}>], dist.results = [#dist.sharding<{}, {}>]} : tensor<3x3xf32>
  dist.assign %w, %v {dist.phase = #dist<phase update>, dist.colocation = 0 : i64, dist.stage = 0 : i64, dist.operands = [#dist.sharding<{}, {}>, #dist.sharding<{}, {}>]} : tensor<3x3xf32>
  return
}
