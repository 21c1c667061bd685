// RUN: kerf-opt %s --kerf-simplify-import | FileCheck %s
// REQUIRES: kerf-opt

module attributes {kerf.files = ["/model.onnx"]} {

// GPT-2's fused projection: three products with views of the weight and bias.
// CHECK-LABEL: @fused_qkv
func.func @fused_qkv(%x: tensor<2x3x4xf32>) -> (tensor<2x3x5xf32>, tensor<2x3x5xf32>) {
  // CHECK-DAG: %[[W0:.*]] = nn.weight "w" {{.*}} : tensor<4x5xf32> of tensor<{{.*}}> from [0, 0]
  // CHECK-DAG: %[[W1:.*]] = nn.weight "w" {{.*}} : tensor<4x5xf32> of tensor<{{.*}}> from [0, 5]
  // CHECK-DAG: nn.weight "b" {{.*}} : tensor<5xf32> of tensor<{{.*}}> from [5]
  // CHECK-DAG: nn.matmul %arg0, %[[W0]] : (tensor<2x3x4xf32>, tensor<4x5xf32>)
  // CHECK-DAG: nn.matmul %arg0, %[[W1]] : (tensor<2x3x4xf32>, tensor<4x5xf32>)
  // CHECK-NOT: nn.slice
  // CHECK-NOT: nn.reshape
  // CHECK: return
  %w = nn.weight "w" file 0 at 0 : tensor<4x10xf32>
  %b = nn.weight "b" file 0 at 160 : tensor<10xf32>
  %0 = nn.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = nn.matmul %0, %w : (tensor<6x4xf32>, tensor<4x10xf32>) -> tensor<6x10xf32>
  %2 = nn.add %1, %b : (tensor<6x10xf32>, tensor<10xf32>) -> tensor<6x10xf32>
  %3 = nn.reshape %2 : (tensor<6x10xf32>) -> tensor<2x3x10xf32>
  %q = nn.slice %3 from [0, 0, 0] : (tensor<2x3x10xf32>) -> tensor<2x3x5xf32>
  %k = nn.slice %3 from [0, 0, 5] : (tensor<2x3x10xf32>) -> tensor<2x3x5xf32>
  return %q, %k : tensor<2x3x5xf32>, tensor<2x3x5xf32>
}

// Slices of rows, the steps of a loop, cannot rise to the weight: the bias is added
// once for all of them.
// CHECK-LABEL: @steps
func.func @steps(%x: tensor<2x3x4xf32>) -> (tensor<2x1x10xf32>, tensor<2x1x10xf32>) {
  // CHECK: %[[P:.*]] = nn.matmul %arg0
  // CHECK: %[[S:.*]] = nn.add %[[P]]
  // CHECK-NEXT: nn.slice %[[S]] from [0, 0, 0]
  // CHECK-NEXT: nn.slice %[[S]] from [0, 2, 0]
  // CHECK-NEXT: return
  %w = nn.weight "w" file 0 at 0 : tensor<4x10xf32>
  %b = nn.weight "b" file 0 at 160 : tensor<10xf32>
  %0 = nn.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x10xf32>) -> tensor<2x3x10xf32>
  %1 = nn.add %0, %b : (tensor<2x3x10xf32>, tensor<10xf32>) -> tensor<2x3x10xf32>
  %2 = nn.slice %1 from [0, 0, 0] : (tensor<2x3x10xf32>) -> tensor<2x1x10xf32>
  %3 = nn.slice %1 from [0, 2, 0] : (tensor<2x3x10xf32>) -> tensor<2x1x10xf32>
  return %2, %3 : tensor<2x1x10xf32>, tensor<2x1x10xf32>
}

// nn.MultiheadAttention picks q, k, v by index from [..., 3, e]; the weight is
// transposed.
// CHECK-LABEL: @packed_projection
func.func @packed_projection(%x: tensor<2x4xf32>) -> tensor<2x5xf32> {
  // CHECK: %[[W:.*]] = nn.weight "w" {{.*}} : tensor<5x4xf32> of tensor<{{.*}}> from [5, 0]
  // CHECK: %[[R:.*]] = nn.matmul %arg0, %[[W]] {transpose_rhs}
  // CHECK-NEXT: return %[[R]]
  %w = nn.weight "w" file 0 at 0 : tensor<15x4xf32>
  %i = nn.constant dense<1> : tensor<i64>
  %0 = nn.matmul %x, %w {transpose_rhs} : (tensor<2x4xf32>, tensor<15x4xf32>) -> tensor<2x15xf32>
  %1 = nn.reshape %0 : (tensor<2x15xf32>) -> tensor<2x3x5xf32>
  %2 = nn.transpose %1 perm [1, 0, 2] : (tensor<2x3x5xf32>) -> tensor<3x2x5xf32>
  %3 = nn.gather %2, %i dim 0 : (tensor<3x2x5xf32>, tensor<i64>) -> tensor<2x5xf32>
  return %3 : tensor<2x5xf32>
}

// The whole product is used too: nothing is computed twice.
// CHECK-LABEL: @also_whole
func.func @also_whole(%x: tensor<2x4xf32>) -> (tensor<2x10xf32>, tensor<2x5xf32>) {
  // CHECK: nn.matmul
  // CHECK-NOT: nn.matmul
  // CHECK: nn.slice
  %w = nn.weight "w" file 0 at 0 : tensor<4x10xf32>
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x10xf32>) -> tensor<2x10xf32>
  %1 = nn.slice %0 from [0, 0] : (tensor<2x10xf32>) -> tensor<2x5xf32>
  return %0, %1 : tensor<2x10xf32>, tensor<2x5xf32>
}

// Positions known at import select a view of the table.
// CHECK-LABEL: @positions
func.func @positions() -> tensor<3x4xf32> {
  // CHECK-NEXT: nn.weight "p" {{.*}} : tensor<3x4xf32> of tensor<{{.*}}> from [0, 0]
  // CHECK-NEXT: return
  %w = nn.weight "p" file 0 at 0 : tensor<8x4xf32>
  %i = nn.constant dense<[0, 1, 2]> : tensor<3xi64>
  %0 = nn.gather %w, %i dim 0 : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// Indices out of order stay a gather.
// CHECK-LABEL: @scattered
func.func @scattered() -> tensor<2x4xf32> {
  // CHECK: nn.gather
  %w = nn.weight "p" file 0 at 0 : tensor<8x4xf32>
  %i = nn.constant dense<[1, 0]> : tensor<2xi64>
  %0 = nn.gather %w, %i dim 0 : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

}
