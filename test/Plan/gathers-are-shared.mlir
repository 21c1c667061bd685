// What several uses need in another layout is moved once: the reshard of %h is
// one op with two uses.

// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 objective=volume shard=w=[{},{tp}] shard=(v|u)=[{},{}] shard=h=[{},{tp}]" | FileCheck %s
// CHECK: %[[H:.*]] = nn.matmul
// CHECK: %[[R:.*]] = dist.reshard %[[H]] to <{}, {}>
// CHECK-NOT: dist.reshard
// CHECK-DAG: nn.matmul %[[R]],
// CHECK-DAG: nn.matmul %[[R]],

func.func @main(%x: tensor<8x16xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %w = nn.constant {name = "w"} dense<0.1> : tensor<16x32xf32>
  %v = nn.constant {name = "v"} dense<0.1> : tensor<32x4xf32>
  %u = nn.constant {name = "u"} dense<0.2> : tensor<32x4xf32>
  %h = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("h")
  %y = nn.matmul %h, %v : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
  %z = nn.matmul %h, %u : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
  return %y, %z : tensor<8x4xf32>, tensor<8x4xf32>
}
