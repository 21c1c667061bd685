// RUN: kerf-opt %s --kerf-assign-in-stages | FileCheck %s
// REQUIRES: kerf-opt

// Stage 1 reads what stage 0 updates: it has a copy, which gets the new value, too.
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: %[[N:.*]] = nn.neg %[[W]]
// CHECK-NEXT: dist.assign %[[W]], %[[N]] {{.*}}
// CHECK-NEXT: dist.assign %[[W]], %[[N]] {dist.plan = #p1_
// CHECK-NEXT: return
#whole = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2]
func.func @main(%x: tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole}) {
  %w = nn.weight "w" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#whole]>} : tensor<4xf32>
  %y = nn.add %x, %w {dist.plan = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 1>} : tensor<4xf32>
  %n = nn.neg %w {dist.plan = #dist.plan<operands = [#whole], results = [#whole], stage = 0>} : tensor<4xf32>
  dist.assign %w, %n {dist.plan = #dist.plan<operands = [#whole, #whole], stage = 0>} : tensor<4xf32>
  return %y : tensor<4xf32>
}
