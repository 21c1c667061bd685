// Equal ops of forward and backward become equal in their attributes, too; the phase stays in the location.
// RUN: kerf-opt %s --drop-plan-attributes --mlir-print-debuginfo | FileCheck %s
// REQUIRES: kerf-opt

// CHECK: nn.relu %{{.*}} : tensor<4xf32> loc(#[[FORWARD:.*]])
// CHECK: nn.relu %{{.*}} : tensor<4xf32> loc(#[[BACKWARD:.*]])
// CHECK-DAG: #[[FORWARD]] = loc(fused<{{.*}}forward{{.*}}>
// CHECK-DAG: #[[BACKWARD]] = loc(fused<{{.*}}backward_input{{.*}}>
dist.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.relu %x {dist.stage = 0 : i64, dist.phase = #dist<phase forward>} : tensor<4xf32>
  %1 = nn.relu %x {dist.stage = 0 : i64, dist.phase = #dist<phase backward_input>} : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
