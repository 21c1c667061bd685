// RUN: kerf-opt %s --split-input-file --kerf-localize | FileCheck %s
// REQUIRES: kerf-opt

// What ops of linalg, tensor and arith become on local shapes.

// The destination of a product that is cut over what it adds up counts once: on the first device.
// CHECK-LABEL: func.func @destination(
// CHECK-SAME: %[[A:.*]]: tensor<4x3xf32> {{.*}}, %[[B:.*]]: tensor<3x5xf32> {{.*}}, %[[C:.*]]: tensor<4x5xf32>
// CHECK: %[[AT:.*]] = dist.shard_index ["a"] scale 3
// CHECK: %[[NUMBER:.*]] = tensor.extract %[[AT]][]
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[NUMBER]]
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[INDEX]], %c0
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.0{{.*}}> : tensor<4x5xf32>
// CHECK: %[[INTO:.*]] = arith.select %[[FIRST]], %[[C]], %[[ZERO]]
// CHECK: linalg.matmul ins(%[[A]], %[[B]] : {{.*}}) outs(%[[INTO]]
#columns = #dist.sharding<{}, {"a"}>
#rows = #dist.sharding<{"a"}, {}>
#whole = #dist.sharding<{}, {}>
#parts = #dist.sharding<{}, {}, partial sum {"a"}>
dist.mesh @mesh ["a"=2]
func.func @destination(%a: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {"a"}>},
    %b: tensor<6x5xf32> {dist.sharding = #rows}, %c: tensor<4x5xf32> {dist.sharding = #whole})
    -> (tensor<4x5xf32> {dist.sharding = #dist.sharding<{}, {}, partial sum {"a"}>}) {
  %0 = linalg.matmul {dist.plan = #dist.plan<operands = [#columns, #rows, #whole], results = [#parts]>}
     ins(%a, %b : tensor<4x6xf32>, tensor<6x5xf32>) outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// A destination of zeros may be added by every device.
// CHECK-LABEL: func.func @zeros(
// CHECK-NOT: arith.select
// CHECK: linalg.matmul
#columns = #dist.sharding<{}, {"a"}>
#rows = #dist.sharding<{"a"}, {}>
#whole = #dist.sharding<{}, {}>
#parts = #dist.sharding<{}, {}, partial sum {"a"}>
dist.mesh @mesh ["a"=2]
func.func @zeros(%a: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {"a"}>},
    %b: tensor<6x5xf32> {dist.sharding = #dist.sharding<{"a"}, {}>})
    -> (tensor<4x5xf32> {dist.sharding = #dist.sharding<{}, {}, partial sum {"a"}>}) {
  %c = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<{}, {}>]>} dense<0.0> : tensor<4x5xf32>
  %0 = linalg.matmul {dist.plan = #dist.plan<operands = [#columns, #rows, #whole], results = [#parts]>}
     ins(%a, %b : tensor<4x6xf32>, tensor<6x5xf32>) outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Five columns over two devices: in the second part the last column is padding, which adds nothing. The body of a
// reduction may make anything of padding, so what it adds is masked, not what it reads; its index is the global one.
// CHECK-LABEL: func.func @padding(
// CHECK: %[[AT:.*]] = dist.shard_index ["a"] scale 3
// CHECK: %[[NUMBER:.*]] = tensor.extract %[[AT]][]
// CHECK: %[[OFFSET:.*]] = arith.index_cast %[[NUMBER]]
// CHECK: linalg.generic
// CHECK: ^bb0(%[[IN:.*]]: f32, %[[OUT:.*]]: f32):
// CHECK: %[[LOCAL:.*]] = linalg.index 1
// CHECK: %[[GLOBAL:.*]] = arith.addi %[[LOCAL]], %[[OFFSET]]
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[GLOBAL]], %c5
// CHECK: %[[E:.*]] = math.exp %[[IN]]
// CHECK: %[[MASKED:.*]] = arith.select %[[INSIDE]], %[[E]], %{{.*}}
// CHECK: arith.addf %[[OUT]], %[[MASKED]]
#map = affine_map<(d0, d1) -> (d0, d1)>
#sum = affine_map<(d0, d1) -> (d0)>
dist.mesh @mesh ["a"=2]
func.func @padding(%x: tensor<4x5xf32> {dist.sharding = #dist.sharding<{}, {"a"}>})
    -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}, partial sum {"a"}>}) {
  %c = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<{}>]>} dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #sum], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x5xf32>) outs(%c : tensor<4xf32>)
      attrs = {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {"a"}>, #dist.sharding<{}>], results = [#dist.sharding<{}, partial sum {"a"}>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Slices, reshapes and splats name local sizes.
// CHECK-LABEL: func.func @shapes(
// CHECK: tensor.extract_slice %{{.*}}[0, 1] [3, 2] [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
// CHECK: tensor.collapse_shape %{{.*}} {{\[}}[0, 1]] : tensor<3x2xf32> into tensor<6xf32>
// CHECK: arith.constant dense<2.0{{.*}}> : tensor<6xf32>
// CHECK: arith.mulf %{{.*}} : tensor<6xf32>
#rows = #dist.sharding<{"a"}, {}>
#cut = #dist.sharding<{"a"}>
dist.mesh @mesh ["a"=2]
func.func @shapes(%x: tensor<6x4xf32> {dist.sharding = #dist.sharding<{"a"}, {}>})
    -> (tensor<12xf32> {dist.sharding = #dist.sharding<{"a"}>}) {
  %0 = tensor.extract_slice %x[0, 1] [6, 2] [1, 1] {dist.plan = #dist.plan<operands = [#rows], results = [#rows]>} : tensor<6x4xf32> to tensor<6x2xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] {dist.plan = #dist.plan<operands = [#rows], results = [#cut]>} : tensor<6x2xf32> into tensor<12xf32>
  %2 = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<{"a"}>]>} dense<2.0> : tensor<12xf32>
  %3 = arith.mulf %1, %2 {dist.plan = #dist.plan<operands = [#cut, #cut], results = [#cut]>} : tensor<12xf32>
  return %3 : tensor<12xf32>
}

// -----

// Indices that a body reads are global ones. The body of a named op is not printed, so that it becomes linalg.generic.
// CHECK-LABEL: func.func @indices(
// CHECK-NOT: linalg.fill_rng_2d
// CHECK: linalg.generic
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: arith.addi %[[I]], %{{.*}} : index
#columns = #dist.sharding<{}, {"a"}>
dist.mesh @mesh ["a"=2]
func.func @indices(%x: tensor<6x8xf32> {dist.sharding = #dist.sharding<{}, {"a"}>})
    -> (tensor<6x8xf32> {dist.sharding = #dist.sharding<{}, {"a"}>}) {
  %low = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<>]>} 0.0 : f64
  %high = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<>]>} 1.0 : f64
  %seed = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<>]>} 7 : i32
  %0 = linalg.fill_rng_2d {dist.plan = #dist.plan<operands = [#dist.sharding<>, #dist.sharding<>, #dist.sharding<>, #columns], results = [#columns]>}
     ins(%low, %high, %seed : f64, f64, i32) outs(%x : tensor<6x8xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
