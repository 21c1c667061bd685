// 7 heads of 4 columns on 4 devices: what a reshape makes of the heads is cut between
// them, and so are the weights; nothing moves but the last sum.

// RUN: kerf-opt %s --kerf-plan="devices=4 mesh=tp=4 objective=volume shard=w=[{},{tp}:8]" | FileCheck %s
// RUN: kerf-opt %s --kerf-plan="devices=4 mesh=tp=4 objective=volume shard=heads=[{},{tp},{}]" | FileCheck %s --check-prefix=HEADS
// CHECK: nn.constant {{.*}}dist.plan = #p_{{[^ ]*}}to_x_tp-by8, name = "w"
// CHECK: nn.matmul {{.*}}dist.plan = #p_{{[^ ]*}}to_x_tp-by8
// CHECK: nn.reshape {{.*}}dist.plan = #p_{{[^ ]*}}to_x_tp_x
// CHECK: nn.reshape {{.*}}dist.plan = #p_{{[^ ]*}}to_x_tp-by8
// CHECK: nn.matmul {{.*}}dist.plan = #p_{{[^ ]*}}to_x2_sum-tp

// HEADS: nn.reshape {{.*}}dist.plan = #p_{{[^ ]*}}to_x_tp_x

// RUN: not kerf-opt %s --kerf-plan="devices=4 mesh=tp=4 shard=w=[{},{tp}:29]" 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: '[{},{tp}:29]' is not a legal sharding of 'w'

func.func @main(%x: tensor<8x64xf32>) -> tensor<8x8xf32> {
  %w = nn.constant {name = "w"} dense<0.1> : tensor<64x28xf32>
  %v = nn.constant {name = "v"} dense<0.1> : tensor<28x8xf32>
  %q = nn.matmul %x, %w : (tensor<8x64xf32>, tensor<64x28xf32>) -> tensor<8x28xf32>
  %h = nn.reshape %q : (tensor<8x28xf32>) -> tensor<8x7x4xf32> loc("heads")
  %e = nn.exp %h : tensor<8x7x4xf32>
  %r = nn.reshape %e : (tensor<8x7x4xf32>) -> tensor<8x28xf32>
  %y = nn.matmul %r, %v : (tensor<8x28xf32>, tensor<28x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
