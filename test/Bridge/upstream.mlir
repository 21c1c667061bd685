// Planned here and partitioned by stock mlir-opt, propagated by stock mlir-opt and partitioned here; what upstream's
// partition gives comes back as collectives of dist.
//
// RUN: kerf-opt %s --kerf-propagate --kerf-dist-to-shard -o %t.shard.mlir
// RUN: mlir-opt %t.shard.mlir --pass-pipeline='builtin.module(func.func(shard-partition))' -o %t.local.mlir
// RUN: FileCheck %s --check-prefix=UPSTREAM --input-file=%t.local.mlir
// RUN: kerf-opt %t.local.mlir --kerf-shard-to-dist | FileCheck %s --check-prefix=BACK
//
// RUN: kerf-opt %s --kerf-dist-to-shard | \
// RUN:   mlir-opt --pass-pipeline='builtin.module(func.func(sharding-propagation))' | \
// RUN:   kerf-opt --kerf-shard-to-dist --kerf-propagate --kerf-partition --kerf-collectives | \
// RUN:   FileCheck %s --check-prefix=KERF
//
// REQUIRES: kerf-opt

// Megatron's block: columns, then rows, and one sum.
// UPSTREAM: shard.grid @mesh(shape = 4) {dist.axes = ["tp"]}
// UPSTREAM: func.func @mlp(%{{.*}}: tensor<8x16xf32>, %{{.*}}: tensor<16x16xf32>, %{{.*}}: tensor<16x16xf32>) -> tensor<8x16xf32>
// UPSTREAM-NOT: shard.all
// UPSTREAM: linalg.matmul
// UPSTREAM: tosa.tanh %{{.*}} : (tensor<8x16xf32>) -> tensor<8x16xf32>
// UPSTREAM: linalg.matmul
// UPSTREAM: shard.all_reduce %{{.*}} on @mesh grid_axes = [0] : tensor<8x16xf32> -> tensor<8x16xf32>
// UPSTREAM-NOT: shard.all

// BACK: dist.mesh @mesh ["tp"=4]
// BACK: dist.all_reduce %{{.*}} sum ["tp"] : tensor<8x16xf32> -> tensor<8x16xf32>

// KERF: dist.mesh @mesh ["tp"=4]
// KERF: func.func @stage0_forward(
// KERF-NOT: dist.all
// KERF: linalg.matmul {{.*}} tensor<8x16xf32>, tensor<16x16xf32>
// KERF: linalg.matmul {{.*}} tensor<8x16xf32>, tensor<16x16xf32>
// KERF: dist.all_reduce %{{.*}} sum ["tp"] : tensor<8x16xf32> -> tensor<8x16xf32>
// KERF-NOT: dist.all

dist.mesh @mesh ["tp"=4]
func.func @mlp(%x: tensor<8x16xf32>, %w: tensor<16x64xf32> {dist.sharding = #dist.sharding<{}, {"tp"}>}, %v: tensor<64x16xf32>)
    -> tensor<8x16xf32> {
  %a = arith.constant dense<0.0> : tensor<8x64xf32>
  %b = arith.constant dense<0.0> : tensor<8x16xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%a : tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = tosa.tanh %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = linalg.matmul ins(%1, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
