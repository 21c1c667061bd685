// Planned over two axes here, partitioned by stock mlir-opt: destinations are made in the layout in which they are filled,
// so upstream has no two-step slice to make of them.
// RUN: kerf-opt %s --kerf-flatten --kerf-plan="devices=4 mesh=dp=2,tp=2" --kerf-dist-to-shard -o %t.shard.mlir
// RUN: mlir-opt %t.shard.mlir --pass-pipeline='builtin.module(func.func(shard-partition))' | FileCheck %s
// REQUIRES: kerf-opt

// CHECK: %[[FIRST:.*]] = tensor.empty() : tensor<2x6xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK: linalg.fill {{.*}} outs(%[[FIRST]] : tensor<2x6xf32>)
// CHECK: %[[SECOND:.*]] = tensor.empty() : tensor<2x4xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK: linalg.fill {{.*}} outs(%[[SECOND]] : tensor<2x4xf32>)
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<6x8xf32>) -> tensor<4x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%f : tensor<4x6xf32>) -> tensor<4x6xf32>
  %e2 = tensor.empty() : tensor<4x8xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %o = linalg.matmul ins(%m, %v : tensor<4x6xf32>, tensor<6x8xf32>) outs(%f2 : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %o : tensor<4x8xf32>
}
