// RUN: kerf-opt %s --kerf-localize | FileCheck %s
// REQUIRES: kerf-opt

#vector_tp = #dist.sharding<{"tp"}>
#scalar_sum_tp = #dist.sharding<partial sum {"tp"}>
#scalar_max_tp = #dist.sharding<partial max {"tp"}>
#scalar_min_tp = #dist.sharding<partial min {"tp"}>
#scalar_prod_tp = #dist.sharding<partial prod {"tp"}>
#rows_tp = #dist.sharding<{"tp"}, {}>
#matrix = #dist.sharding<{}, {}>
#vector = #dist.sharding<{}>
#matrix_sum_tp = #dist.sharding<{}, {}, partial sum {"tp"}>
#columns_tp_of_8 = #dist.sharding<{}, {"tp"}:8>
#rank3_dim1_tp = #dist.sharding<{}, {"tp"}, {}>
#vector_sum_tp = #dist.sharding<{}, partial sum {"tp"}>
#vector_tp_of_8 = #dist.sharding<{"tp"}:8>
dist.mesh @mesh ["tp"=2]

// Every reduction has its own identity; the mask stands at the reduction.
// CHECK-LABEL: @identities
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>
func.func @identities(%x: tensor<5xf32> {dist.sharding = #vector_tp}) {
  // CHECK: %[[S:.*]] = dist.mask %[[X]] dim 0 size 5 over ["tp"] fill 0.000000e+00 : f32
  // CHECK: nn.reduce sum %[[S]]
  %0 = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#vector_tp], results = [#scalar_sum_tp]>} : (tensor<5xf32>) -> tensor<f32>
  // CHECK: dist.mask %[[X]] dim 0 size 5 over ["tp"] fill 0xFF800000 : f32
  %1 = nn.reduce max %x dims [0] {dist.plan = #dist.plan<operands = [#vector_tp], results = [#scalar_max_tp]>} : (tensor<5xf32>) -> tensor<f32>
  // CHECK: dist.mask %[[X]] dim 0 size 5 over ["tp"] fill 0x7F800000 : f32
  %2 = nn.reduce min %x dims [0] {dist.plan = #dist.plan<operands = [#vector_tp], results = [#scalar_min_tp]>} : (tensor<5xf32>) -> tensor<f32>
  // CHECK: dist.mask %[[X]] dim 0 size 5 over ["tp"] fill 1.000000e+00 : f32
  %3 = nn.reduce prod %x dims [0] {dist.plan = #dist.plan<operands = [#vector_tp], results = [#scalar_prod_tp]>} : (tensor<5xf32>) -> tensor<f32>
  return
}

// The smallest integer, where there is no infinity.
// CHECK-LABEL: @integers
func.func @integers(%x: tensor<5xi8> {dist.sharding = #vector_tp}) {
  // CHECK: fill -128 : i8
  %1 = nn.reduce max %x dims [0] {dist.plan = #dist.plan<operands = [#vector_tp], results = [#scalar_max_tp]>} : (tensor<5xi8>) -> tensor<i8>
  return
}

// What divides needs no mask, nor do rows that are not summed over, nor a weight,
// which comes with zeros.
// CHECK-LABEL: @no_mask
func.func @no_mask(%x: tensor<5x6xf32> {dist.sharding = #rows_tp}) {
  // CHECK-NOT: dist.mask
  %0 = nn.reduce sum %x dims [1] {dist.plan = #dist.plan<operands = [#rows_tp], results = [#vector_tp]>} : (tensor<5x6xf32>) -> tensor<5xf32>
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#vector_tp]>} : tensor<5xf32>
  %1 = nn.reduce sum %w dims [0] {dist.plan = #dist.plan<operands = [#vector_tp], results = [#scalar_sum_tp]>} : (tensor<5xf32>) -> tensor<f32>
  // CHECK: return
  return
}

// A gather of a cut table: indices move by what the ranks before hold, and
// padding of the indices is a row that exists.
// CHECK-LABEL: @gather
// CHECK-SAME: (%[[I:.*]]: tensor<3xi64>
func.func @gather(%i: tensor<5xi64> {dist.sharding = #dist.sharding<{"tp":(1)2}>}) {
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#matrix]>} : tensor<5x2xf32>
  // CHECK: %[[M:.*]] = dist.mask %[[I]] dim 0 size 5 over ["tp"] fill 0 : i64 : tensor<3xi64>
  // CHECK: nn.gather %{{.*}}, %[[M]]
  %0 = nn.gather %w, %i dim 0 {dist.plan = #dist.plan<operands = [#matrix, #vector_tp], results = [#rows_tp]>}
     : (tensor<5x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
  return
}

// CHECK-LABEL: @gather_rows
func.func @gather_rows(%i: tensor<4xi64> {dist.sharding = #vector}) {
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#rows_tp]>} : tensor<5x2xf32>
  // CHECK: %[[O:.*]] = dist.shard_index ["tp"] scale 3 : tensor<i64>
  // CHECK: %[[S:.*]] = nn.sub %{{.*}}, %[[O]]
  // An index that no rank holds is marked (kerf/NN/Rules/Rows.h).
  // CHECK: nn.constant dense<-4611686018427387904>
  // CHECK: %[[E:.*]] = nn.add
  // CHECK: nn.select %{{.*}}, %[[S]], %[[E]]
  // CHECK: %[[R:.*]] = nn.select %{{.*}}, %[[E]],
  // CHECK: nn.gather %{{.*}}, %[[R]] dim 0 {partial} : (tensor<3x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %0 = nn.gather %w, %i dim 0 {dist.plan = #dist.plan<operands = [#rows_tp, #vector], results = [#matrix_sum_tp]>}
     : (tensor<5x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  return
}

// Three heads of 4 columns on two ranks: two and one, in blocks of 8 columns,
// so that the reshape is local; the sum over them is masked.
// CHECK-LABEL: @heads
// CHECK-SAME: (%[[X:.*]]: tensor<5x8xf32>
func.func @heads(%x: tensor<5x12xf32> {dist.sharding = #columns_tp_of_8}) {
  // CHECK: %[[H:.*]] = nn.reshape %[[X]] : (tensor<5x8xf32>) -> tensor<5x2x4xf32>
  %0 = nn.reshape %x {dist.plan = #dist.plan<operands = [#columns_tp_of_8], results = [#rank3_dim1_tp]>} : (tensor<5x12xf32>) -> tensor<5x3x4xf32>
  // CHECK: %[[M:.*]] = dist.mask %[[X]] dim 1 size 12 over ["tp"] fill 0.000000e+00 : f32 : tensor<5x8xf32>
  // CHECK: nn.reduce sum %[[M]] {{.*}} : (tensor<5x8xf32>) -> tensor<5xf32>
  %1 = nn.reduce sum %x dims [1] {dist.plan = #dist.plan<operands = [#columns_tp_of_8], results = [#vector_sum_tp]>} : (tensor<5x12xf32>) -> tensor<5xf32>
  // CHECK: dist.shard_index ["tp"] scale 8 : tensor<i64>
  %2 = nn.iota dim 0 {dist.plan = #dist.plan<results = [#vector_tp_of_8]>} : tensor<12xi64>
  return
}

// A reshard keeps both ends and the global type.
// CHECK-LABEL: @reshard
func.func @reshard(%x: tensor<5xf32> {dist.sharding = #vector_tp}) -> (tensor<5xf32> {dist.sharding = #vector}) {
  // CHECK: dist.reshard %{{.*}} from #s_tp to #s_x of tensor<5xf32> : tensor<3xf32> -> tensor<5xf32>
  %0 = dist.reshard %x to <{}> : tensor<5xf32>
  return %0 : tensor<5xf32>
}
