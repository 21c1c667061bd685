// A hint fixes the sharding of the values that it names, and the rest follows.

// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard=w=[{tp},{}]" | FileCheck %s
// CHECK: nn.constant {{.*}}dist.plan = #p_{{[^ ]*}}to_tp_x, name = "w"
// CHECK: nn.matmul

func.func @main(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %w = nn.constant {name = "w"} dense<0.1> : tensor<64x32xf32>
  %y = nn.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
