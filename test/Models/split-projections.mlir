// RUN: kerf-opt %s --split-input-file --kerf-split-projections | FileCheck %s
// REQUIRES: kerf-opt

// Two slices of a product and its bias become two products of two slices of weights. Constants and fills are made in the
// size of a slice; other constants are sliced.

// CHECK-LABEL: func.func @bias(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[W:.*]]: tensor<6x2x5xf32> {kerf.name = "w"}) -> (tensor<4x5xf32>, tensor<4x5xf32>)
// CHECK-DAG: %[[ALL:.*]] = arith.constant dense<[1.0{{.*}}]> : tensor<10xf32>
// CHECK-DAG: %[[B0:.*]] = tensor.extract_slice %[[ALL]][0] [5] [1]
// CHECK-DAG: %[[B1:.*]] = tensor.extract_slice %[[ALL]][5] [5] [1]
// CHECK-DAG: %[[W0:.*]] = tensor.extract_slice %[[W]][0, 0, 0] [6, 1, 5] [1, 1, 1] : tensor<6x2x5xf32> to tensor<6x5xf32>
// CHECK-DAG: %[[W1:.*]] = tensor.extract_slice %[[W]][0, 1, 0] [6, 1, 5] [1, 1, 1] : tensor<6x2x5xf32> to tensor<6x5xf32>
// CHECK-DAG: %[[P0:.*]] = linalg.matmul ins(%[[X]], %[[W0]] : {{.*}}) outs(%{{.*}} : tensor<4x5xf32>)
// CHECK-DAG: %[[P1:.*]] = linalg.matmul ins(%[[X]], %[[W1]] : {{.*}}) outs(%{{.*}} : tensor<4x5xf32>)
// CHECK-DAG: linalg.generic {{.*}} ins(%[[P0]], %[[B0]] : tensor<4x5xf32>, tensor<5xf32>)
// CHECK-DAG: linalg.generic {{.*}} ins(%[[P1]], %[[B1]] : tensor<4x5xf32>, tensor<5xf32>)
// CHECK-NOT: tensor<4x10xf32>
// CHECK: return
#m = affine_map<(i, j) -> (i, j)>
#b = affine_map<(i, j) -> (j)>
func.func @bias(%x: tensor<4x6xf32>, %w: tensor<6x10xf32> {kerf.name = "w"}) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %b = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]> : tensor<10xf32>
  %0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x10xf32>
  %z = linalg.fill ins(%0 : f32) outs(%e : tensor<4x10xf32>) -> tensor<4x10xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x10xf32>) outs(%z : tensor<4x10xf32>) -> tensor<4x10xf32>
  %y = linalg.generic {indexing_maps = [#m, #b, #m], iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<4x10xf32>, tensor<10xf32>) outs(%e : tensor<4x10xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<4x10xf32>
  %l = tensor.extract_slice %y[0, 0] [4, 5] [1, 1] : tensor<4x10xf32> to tensor<4x5xf32>
  %r = tensor.extract_slice %y[0, 5] [4, 5] [1, 1] : tensor<4x10xf32> to tensor<4x5xf32>
  return %l, %r : tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// A slice of the outermost dimension of a group, which the slice drops; of the weight it is a part of the rows.

// CHECK-LABEL: func.func @reshaped(
// CHECK-SAME: %{{.*}}: tensor<3x4xf32>, %[[W:.*]]: tensor<2x6x4xf32>)
// CHECK: tensor.extract_slice %[[W]][1, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<2x6x4xf32> to tensor<6x4xf32>
// CHECK: linalg.contract {{.*}} -> tensor<3x6xf32>
// CHECK: math.tanh %{{.*}} : tensor<3x6xf32>
// CHECK: tensor.expand_shape {{.*}} : tensor<3x6xf32> into tensor<3x1x2x3xf32>
// CHECK: tensor.extract_slice {{.*}} : tensor<3x1x2x3xf32> to tensor<3x2x3xf32>
func.func @reshaped(%x: tensor<3x4xf32>, %w: tensor<12x4xf32>) -> tensor<3x2x3xf32> {
  %z = arith.constant dense<0.0> : tensor<3x12xf32>
  %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>]
      ins(%x, %w : tensor<3x4xf32>, tensor<12x4xf32>) outs(%z : tensor<3x12xf32>) -> tensor<3x12xf32>
  %t = math.tanh %p : tensor<3x12xf32>
  %y = tensor.expand_shape %t [[0], [1, 2, 3]] output_shape [3, 2, 2, 3] : tensor<3x12xf32> into tensor<3x2x2x3xf32>
  %s = tensor.extract_slice %y[0, 1, 0, 0] [3, 1, 2, 3] [1, 1, 1, 1] : tensor<3x2x2x3xf32> to tensor<3x2x3xf32>
  return %s : tensor<3x2x3xf32>
}

// -----

// The program slices its weight itself.

// CHECK-LABEL: func.func @weight(
// CHECK-SAME: %[[W:.*]]: tensor<3x4x5xf32>)
// CHECK: tensor.extract_slice %[[W]][2, 0, 0] [1, 4, 5] [1, 1, 1] : tensor<3x4x5xf32> to tensor<4x5xf32>
// CHECK: tensor.extract_slice %[[W]][0, 0, 0] [1, 4, 5] [1, 1, 1] : tensor<3x4x5xf32> to tensor<4x5xf32>
func.func @weight(%w: tensor<12x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %2 = tensor.extract_slice %w[8, 0] [4, 5] [1, 1] : tensor<12x5xf32> to tensor<4x5xf32>
  %0 = tensor.extract_slice %w[0, 0] [4, 5] [1, 1] : tensor<12x5xf32> to tensor<4x5xf32>
  return %2, %0 : tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// What stays: parts of two sizes; a product that is also given whole; one of a weight that is read twice; a slice in a
// region; a weight with a sharding; a sum with what other ops compute; a body that reads the index.

// CHECK-LABEL: func.func @sizes(
// CHECK-SAME: tensor<6x8xf32>, %{{.*}}: tensor<6x8xf32>)
// CHECK: linalg.add {{.*}} -> tensor<6x8xf32>
func.func @sizes(%x: tensor<6x8xf32>, %y: tensor<6x8xf32>) -> (tensor<6x6xf32>, tensor<6x2xf32>) {
  %e = tensor.empty() : tensor<6x8xf32>
  %s = linalg.add ins(%x, %y : tensor<6x8xf32>, tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %l = tensor.extract_slice %s[0, 0] [6, 6] [1, 1] : tensor<6x8xf32> to tensor<6x6xf32>
  %r = tensor.extract_slice %s[0, 6] [6, 2] [1, 1] : tensor<6x8xf32> to tensor<6x2xf32>
  return %l, %r : tensor<6x6xf32>, tensor<6x2xf32>
}

// CHECK-LABEL: func.func @whole(
// CHECK-SAME: tensor<6x8xf32>)
// CHECK: math.exp {{.*}} : tensor<6x8xf32>
func.func @whole(%x: tensor<6x8xf32>) -> (tensor<6x4xf32>, tensor<6x8xf32>) {
  %s = math.exp %x : tensor<6x8xf32>
  %l = tensor.extract_slice %s[0, 0] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  return %l, %s : tensor<6x4xf32>, tensor<6x8xf32>
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: tensor<6x8xf32>, %{{.*}}: i1)
// CHECK: math.exp {{.*}} : tensor<6x8xf32>
func.func @region(%x: tensor<6x8xf32>, %c: i1) -> tensor<6x4xf32> {
  %s = math.exp %x : tensor<6x8xf32>
  %l = tensor.extract_slice %s[0, 0] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  %y = scf.if %c -> (tensor<6x4xf32>) {
    %r = tensor.extract_slice %s[0, 4] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
    scf.yield %r : tensor<6x4xf32>
  } else {
    scf.yield %l : tensor<6x4xf32>
  }
  return %y : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @twice(
// CHECK-SAME: tensor<6x8xf32>)
// CHECK: arith.mulf {{.*}} : tensor<6x8xf32>
func.func @twice(%x: tensor<6x8xf32>) -> tensor<6x4xf32> {
  %s = arith.mulf %x, %x : tensor<6x8xf32>
  %l = tensor.extract_slice %s[0, 0] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  return %l : tensor<6x4xf32>
}

// -----

// CHECK-LABEL: func.func @annotated(
// CHECK-SAME: tensor<6x8xf32> {
// CHECK: math.exp {{.*}} : tensor<6x8xf32>
dist.mesh @mesh ["a"=2]
func.func @annotated(%x: tensor<6x8xf32> {dist.sharding = #dist.sharding<{}, {"a"}>}) -> tensor<6x4xf32> {
  %s = math.exp %x : tensor<6x8xf32>
  %l = tensor.extract_slice %s[0, 0] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  return %l : tensor<6x4xf32>
}

// -----

// CHECK-LABEL: func.func @computed(
// CHECK-SAME: %{{.*}}: tensor<6x8xf32>, %{{.*}}: tensor<8x6xf32>)
// CHECK: linalg.transpose
// CHECK: arith.addf {{.*}} : tensor<6x8xf32>
// CHECK: tensor.extract_slice
func.func @computed(%x: tensor<6x8xf32>, %y: tensor<8x6xf32>) -> (tensor<6x4xf32>, tensor<6x8xf32>) {
  %e = tensor.empty() : tensor<6x8xf32>
  %t = linalg.transpose ins(%y : tensor<8x6xf32>) outs(%e : tensor<6x8xf32>) permutation = [1, 0]
  %s = arith.addf %x, %t : tensor<6x8xf32>
  %l = tensor.extract_slice %s[0, 0] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
  return %l, %t : tensor<6x4xf32>, tensor<6x8xf32>
}

// -----

// CHECK-LABEL: func.func @index(
// CHECK-SAME: %{{.*}}: tensor<8xi64>)
// CHECK: linalg.index 0
// CHECK: tensor.extract_slice {{.*}} : tensor<8xi64> to tensor<4xi64>
func.func @index(%x: tensor<8xi64>) -> tensor<4xi64> {
  %e = tensor.empty() : tensor<8xi64>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xi64>) outs(%e : tensor<8xi64>) {
  ^bb0(%a: i64, %out: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    %t = arith.addi %a, %n : i64
    linalg.yield %t : i64
  } -> tensor<8xi64>
  %r = tensor.extract_slice %s[4] [4] [1] : tensor<8xi64> to tensor<4xi64>
  return %r : tensor<4xi64>
}
