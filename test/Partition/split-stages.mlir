// RUN: kerf-opt %s --kerf-split-stages | FileCheck %s
// REQUIRES: kerf-opt

// A weight that two stages use is in both (tied weights); a value that skips a
// stage goes straight; an input is read by the stage that uses it; a value that
// is output and sent is one result.
dist.mesh @mesh ["pp"=3, "tp"=2]
func.func @main(%x: tensor<4xf32> {kerf.name = "x", dist.sharding = #dist.sharding<{}>},
                %y: tensor<4xf32> {kerf.name = "y", dist.sharding = #dist.sharding<{"tp"}>})
    -> (tensor<4xf32> {kerf.name = "p", dist.sharding = #dist.sharding<{}>},
        tensor<4xf32> {kerf.name = "q", dist.sharding = #dist.sharding<{"tp"}>}) {
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#dist.sharding<{}>]>} : tensor<4xf32>
  %0 = nn.add %x, %w {dist.plan = #dist.plan<operands = [#dist.sharding<{}>, #dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 0>} : tensor<4xf32>
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 1>} : tensor<4xf32>
  %2 = nn.mul %1, %w {dist.plan = #dist.plan<operands = [#dist.sharding<{}>, #dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 1>} : tensor<4xf32>
  %3 = nn.add %2, %0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}>, #dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 2>} : tensor<4xf32>
  %4 = nn.neg %y {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}>], results = [#dist.sharding<{"tp"}>], stage = 2>} : tensor<4xf32>
  return %0, %4 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-DAG: dist.channel 0 from 0 to 1 : tensor<4xf32>
// CHECK-DAG: dist.channel 1 from 1 to 2 : tensor<4xf32>
// CHECK-DAG: dist.channel 2 from 0 to 2 : tensor<4xf32>
// CHECK: func.func private @main(tensor<4xf32> {{.*}}kerf.name = "x"}, tensor<4xf32> {{.*}}kerf.name = "y"})
// CHECK-LABEL: func.func @stage0_forward(
// CHECK-SAME: dist.from = #dist.from<input 0>
// CHECK-SAME: dist.to = #dist.to<output [0], send [0, 2]>
// CHECK: nn.weight "w"
// CHECK-LABEL: func.func @stage1_forward(
// CHECK-SAME: dist.from = #dist.from<recv 0>
// CHECK-SAME: dist.to = #dist.to<send [1]>
// CHECK: nn.weight "w"
// CHECK-LABEL: func.func @stage2_forward(
// CHECK-SAME: dist.from = #dist.from<recv 1>
// CHECK-SAME: dist.from = #dist.from<recv 2>
// CHECK-SAME: dist.from = #dist.from<input 1>
// CHECK-SAME: dist.to = #dist.to<output [1]>
// CHECK-NOT: nn.weight
