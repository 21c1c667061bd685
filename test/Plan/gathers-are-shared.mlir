// What several uses need in another layout is moved once: the reshard of %h is
// one op with two uses.

// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard=h=[{},{tp}]" | FileCheck %s
// CHECK: %[[H:.*]] = nn.matmul
// CHECK: %[[R:.*]] = dist.reshard %[[H]] to
// CHECK-NOT: dist.reshard
// CHECK-DAG: nn.softmax %[[R]]
// CHECK-DAG: nn.log_softmax %[[R]]

func.func @main(%x: tensor<8x16xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %w = nn.constant {name = "w"} dense<0.1> : tensor<16x32xf32>
  %h = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("h")
  %y = nn.softmax %h dim 1 : tensor<8x32xf32>
  %z = nn.log_softmax %h dim 1 : tensor<8x32xf32>
  return %y, %z : tensor<8x32xf32>, tensor<8x32xf32>
}
