// RUN: kerf-opt %s --kerf-expand-rank-ops | FileCheck %s
// REQUIRES: kerf-opt

// A slice of the rank's own part: rows from (position over the axes) * size on.
// CHECK-LABEL: func.func @main
// CHECK: %[[IOTA:.*]] = nn.iota
// CHECK: %[[RANK:.*]] = dist.shard_index ["tp"]
// CHECK: %[[START:.*]] = nn.mul %[[RANK]], %{{.*}}
// CHECK: %[[ROWS:.*]] = nn.add %[[IOTA]], %[[START]]
// CHECK: nn.gather %{{.*}}, %[[ROWS]] {{.*}}partial
// CHECK-NOT: dist.all_slice
// What lies past the end is filled.
// CHECK: nn.less
// CHECK: nn.select
// CHECK-NOT: dist.mask
dist.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dist.all_slice %x ["tp"] dim 0 : tensor<8xf32> -> tensor<4xf32>
  %1 = dist.mask %y dim 0 size 7 over ["tp"] fill 0.0 : f32 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
