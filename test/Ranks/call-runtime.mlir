// Functions on local tensors, as partition and collectives leave them.
// RUN: kerf-opt %s --kerf-call-runtime | FileCheck %s
// RUN: kerf-opt %s --kerf-call-runtime | kerf-opt -o /dev/null
// REQUIRES: kerf-opt

dist.mesh @mesh ["dp"=2, "tp"=4]

// Without a list of a stage the text has a name of its own.
// CHECK: llvm.mlir.global external constant @kerf_ranks("
// CHECK-SAME: \22axes\22:[{\22name\22:\22dp\22,\22size\22:2},{\22name\22:\22tp\22,\22size\22:4}]
// CHECK-SAME: \22parameters\22:[{\22dtype\22:\22f32\22,\22global_shape\22:[8],\22local_shape\22:[2],\22name\22:\22w\22,
// CHECK-SAME: \22stages\22:[0]}
// CHECK-SAME: \22schema\22:\22kerf.ranks/1\22
// CHECK-NOT: dist.

// A collective reads the buffer of its operand and fills a new one.
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: %[[RANK:.*]]: !llvm.ptr, %{{.*}}: i64, %[[X:.*]]: tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @sum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[SOURCE:.*]] = bufferization.to_buffer %[[X]] read_only {read = 0 : i64} : tensor<2x3xf32> to memref<2x3xf32>
  // CHECK: %[[BUFFER:.*]] = memref.alloc() : memref<2x3xf32>
  // CHECK: %[[INDEX:.*]] = arith.constant 0 : i64
  // CHECK: call @kerf_all_reduce_0(%[[RANK]], %[[INDEX]], %[[SOURCE]], %[[BUFFER]])
  // CHECK: %[[R:.*]] = bufferization.to_tensor %[[BUFFER]] restrict : memref<2x3xf32> to tensor<2x3xf32>
  // CHECK: return %[[R]]
  %0 = dist.all_reduce %x sum ["tp"] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// Between start and wait the operand is read, so that nothing overwrites it.
// CHECK-LABEL: func.func @started(
func.func @started(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[SOURCE:.*]] = bufferization.to_buffer %[[X:.*]] read_only {read = 1 : i64}
  // CHECK: %[[BUFFER:.*]] = memref.alloc() : memref<4xf32>
  // CHECK: call @kerf_start_1(%{{.*}}, %{{.*}}, %[[SOURCE]], %[[BUFFER]])
  // CHECK: linalg.exp
  // CHECK: %[[AGAIN:.*]] = bufferization.to_buffer %[[X]] read_only {read = 2 : i64}
  // CHECK: call @kerf_wait_1(%{{.*}}, %{{.*}}, %[[SOURCE]], %[[AGAIN]], %[[BUFFER]])
  // CHECK: bufferization.to_tensor %[[BUFFER]] restrict :
  %0 = dist.all_reduce %x max ["dp"] : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %1 = linalg.exp ins(%y : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  %2 = dist.wait %0 : !dist.pending<tensor<4xf32>>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// What lies past the end, 5 - 2 * 3 columns of the second part, is filled.
// CHECK-LABEL: func.func @mask(
// CHECK-SAME: %[[RANK:.*]]: !llvm.ptr, %{{.*}}: i64, %[[X:.*]]: tensor<2x3xf32>)
func.func @mask(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[NUMBER:.*]] = llvm.call @kerf_rank_number(%[[RANK]]) : (!llvm.ptr) -> i64
  // CHECK: %[[C4:.*]] = arith.constant 4 : i64
  // CHECK: %[[OVER:.*]] = arith.divui %[[NUMBER]], %[[C4]]
  // CHECK: %[[C2:.*]] = arith.constant 2 : i64
  // CHECK: %[[AT:.*]] = arith.remui %[[OVER]], %[[C2]]
  // CHECK: %[[C3:.*]] = arith.constant 3 : i64
  // CHECK: %[[START:.*]] = arith.muli %[[AT]], %[[C3]]
  // CHECK: %[[C5:.*]] = arith.constant 5 : i64
  // CHECK: %[[VALID:.*]] = arith.subi %[[C5]], %[[START]]
  // CHECK: %[[END:.*]] = arith.index_cast %[[VALID]]
  // CHECK: %[[FILL:.*]] = arith.constant 1.0
  // CHECK: linalg.generic
  // CHECK: %[[J:.*]] = linalg.index 1
  // CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[J]], %[[END]]
  // CHECK: arith.select %[[INSIDE]], %{{.*}}, %[[FILL]]
  %0 = dist.mask %x dim 1 size 5 over ["dp"] fill 1.0 : f32 : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// Parts of 2 of 7 rows: the last ends in zeros.
// CHECK-LABEL: func.func @uneven_slice(
func.func @uneven_slice(%x: tensor<7x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<8x3xf32>
  // CHECK: %[[PADDED:.*]] = tensor.insert_slice %{{.*}} into %[[ZEROS]][0, 0] [7, 3] [1, 1]
  // CHECK: tensor.extract_slice %[[PADDED]][%{{.*}}, 0] [2, 3] [1, 1] : tensor<8x3xf32> to tensor<2x3xf32>
  %0 = dist.all_slice %x ["tp"] dim 0 : tensor<7x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @even_slice(
func.func @even_slice(%x: tensor<8x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NOT: insert_slice
  // CHECK: tensor.extract_slice %{{.*}}[%{{.*}}, 0] [2, 3] [1, 1] : tensor<8x3xf32> to tensor<2x3xf32>
  %0 = dist.all_slice %x ["tp"] dim 0 : tensor<8x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// A part of an axis is a digit of its coordinate.
// CHECK-LABEL: func.func @index(
func.func @index() -> tensor<i64> {
  // CHECK: %[[C2:.*]] = arith.constant 2 : i64
  // CHECK: %[[OVER:.*]] = arith.divui %{{.*}}, %[[C2]]
  // CHECK: %[[TWO:.*]] = arith.constant 2 : i64
  // CHECK: %[[DIGIT:.*]] = arith.remui %[[OVER]], %[[TWO]]
  // CHECK: %[[OFFSET:.*]] = arith.muli %[[DIGIT]]
  // CHECK: tensor.from_elements %[[OFFSET]] : tensor<i64>
  %0 = dist.shard_index ["tp":(1)2] scale 3 : tensor<i64>
  return %0 : tensor<i64>
}

// CHECK-LABEL: func.func @packed(
func.func @packed(%a: tensor<2x3xf32>, %b: tensor<f32>) -> (tensor<2x3xf32>, tensor<f32>) {
  // CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  // CHECK: tensor.insert_slice {{.*}}[0] [6] [1] : tensor<6xf32> into tensor<7xf32>
  // CHECK: tensor.expand_shape %{{.*}} [] output_shape [1] : tensor<f32> into tensor<1xf32>
  // CHECK: tensor.insert_slice {{.*}}[6] [1] [1] : tensor<1xf32> into tensor<7xf32>
  // CHECK: tensor.extract_slice {{.*}}[0] [6] [1]
  // CHECK: tensor.expand_shape {{.*}} : tensor<6xf32> into tensor<2x3xf32>
  // CHECK: tensor.extract_slice {{.*}}[6] [1] [1]
  // CHECK: tensor.collapse_shape {{.*}} : tensor<1xf32> into tensor<f32>
  %0 = dist.pack %a, %b : tensor<2x3xf32>, tensor<f32> -> tensor<7xf32>
  %1, %2 = dist.unpack %0 : tensor<7xf32> -> tensor<2x3xf32>, tensor<f32>
  return %1, %2 : tensor<2x3xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @added(
func.func @added(%x: tensor<4xf32>, %sum: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4xf32>)
  // CHECK: arith.addf
  %0 = dist.accumulate %x into %sum : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Elements that the runtime has no type of move as integers of their width.
// CHECK-LABEL: func.func @moves(
func.func @moves(%x: tensor<2x3xf8E4M3FN>) -> tensor<8x3xf8E4M3FN> {
  // CHECK: call @kerf_all_gather_2(
  %0 = dist.all_gather %x ["tp"] dim 0 : tensor<2x3xf8E4M3FN> -> tensor<8x3xf8E4M3FN>
  return %0 : tensor<8x3xf8E4M3FN>
}

// What others say of arguments stays, what the planner said goes.
// CHECK-LABEL: func.func @attributes(
// CHECK-SAME: !llvm.ptr, %{{.*}}: i64, %{{.*}}: tensor<2xf32> {bufferization.writable = false}) -> tensor<2xf32>
func.func @attributes(%x: tensor<2xf32> {bufferization.writable = false, kerf.name = "x"}) -> (tensor<2xf32> {kerf.name = "y"}) {
  %0 = dist.all_reduce %x prod ["dp"] : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// No op of dist: left as it is.
// CHECK-LABEL: func.func @local(
// CHECK-SAME: %{{.*}}: tensor<4xf32>) -> tensor<4xf32>
func.func @local(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// Parameters stay at the ranks: a copy of the part is read, an assignment replaces the part.
// CHECK-LABEL: func.func @kept(
// CHECK-SAME: %[[RANK:.*]]: !llvm.ptr, %{{.*}}: i64, %[[X:.*]]: tensor<2xf32>)
func.func @kept(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: %[[BUFFER:.*]] = memref.alloc() : memref<2xf32>
  // CHECK: %[[W:.*]] = arith.constant 0 : i64
  // CHECK: call @kerf_load_0(%[[RANK]], %[[W]], %[[BUFFER]])
  // CHECK: %[[OLD:.*]] = bufferization.to_tensor %[[BUFFER]] restrict :
  // CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[X]]
  // CHECK: %[[SOURCE:.*]] = bufferization.to_buffer %[[NEW]] read_only
  // CHECK: call @kerf_store_0(%[[RANK]], %{{.*}}, %[[SOURCE]])
  // CHECK: return %[[OLD]]
  %w = nn.weight "w" file 0 at 0 {variable, dist.global_type = tensor<8xf32>, dist.sharding = #dist.sharding<{"tp"}>}
     : tensor<2xf32> of tensor<8xf32>
  %0 = arith.addf %w, %x : tensor<2xf32>
  dist.assign %w, %0 : tensor<2xf32>
  return %w : tensor<2xf32>
}

// Each call is in a function that takes the buffers, and is not inlined.
// CHECK: func.func private @kerf_all_reduce_0(%[[RANK:.*]]: !llvm.ptr, %[[INDEX:.*]]: i64,
// CHECK-SAME: %[[SRC:.*]]: memref<2x3xf32>, %[[DST:.*]]: memref<2x3xf32>) attributes {no_inline}
// CHECK: memref.extract_aligned_pointer_as_index %[[SRC]]
// CHECK: %[[FROM:.*]] = llvm.inttoptr
// CHECK: memref.extract_aligned_pointer_as_index %[[DST]]
// CHECK: %[[TO:.*]] = llvm.inttoptr
// CHECK: llvm.call @kerf_rank_collective(%[[RANK]], %[[INDEX]], %[[FROM]], %[[TO]])
// CHECK: llvm.func @kerf_rank_collective(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr)
