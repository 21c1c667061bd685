// Collectives and meshes are the same text after shard and back; what Kerf partitions, stock mlir-opt reads.
//
// RUN: kerf-opt %s -o %t.before
// RUN: kerf-opt %s --kerf-dist-to-shard --kerf-shard-to-dist -o %t.after
// RUN: diff %t.before %t.after
//
// RUN: kerf-opt %S/upstream.mlir --kerf-propagate --kerf-partition --kerf-collectives --kerf-dist-to-shard | mlir-opt | FileCheck %s
//
// REQUIRES: kerf-opt

// CHECK: func.func @mlp(
// CHECK: shard.all_reduce

dist.mesh @mesh ["x"=2, "axis1"=3, "y"=4]
func.func @collectives(%x: tensor<12x8xf32>) -> tensor<12x8xf32> {
  %0 = dist.all_reduce %x min ["y", "x"] : tensor<12x8xf32> -> tensor<12x8xf32>
  %1 = dist.reduce_scatter %0 prod ["axis1", "x"] dim 0 : tensor<12x8xf32> -> tensor<2x8xf32>
  %2 = dist.all_to_all %1 ["y"] split 1 concat 0 : tensor<2x8xf32> -> tensor<8x2xf32>
  %3 = dist.all_gather %2 ["y"] dim 1 : tensor<8x2xf32> -> tensor<8x8xf32>
  %4 = dist.all_slice %3 ["y", "x"] dim 0 : tensor<8x8xf32> -> tensor<1x8xf32>
  %5 = dist.broadcast %4 ["axis1", "y"] root 7 : tensor<1x8xf32> -> tensor<1x8xf32>
  %6 = dist.permute %5 ["axis1"] pairs [0, 1, 1, 2, 2, 0] : tensor<1x8xf32> -> tensor<1x8xf32>
  %7 = dist.all_gather %6 ["axis1", "y"] dim 0 : tensor<1x8xf32> -> tensor<12x8xf32>
  return %7 : tensor<12x8xf32>
}
