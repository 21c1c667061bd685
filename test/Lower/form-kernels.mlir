// Which ops become one kernel.
// RUN: kerf-opt %s --split-input-file --prepare --form-groups --bufferize | FileCheck %s
// REQUIRES: kerf-opt

// Residual and norm are one pass; the sum is stored as well, for the next residual.
// CHECK: exec.kernel @add_layer_norm_0({{.*}}) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NOT: exec.kernel
// CHECK: exec.func
func.func @main(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.add %x, %r : tensor<4x8xf32>
  %1 = nn.layer_norm %0, %s, %b dim 1 epsilon 1.0e-05 : tensor<4x8xf32>, tensor<8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A path through a product leads out of the union and back: two kernels.
// CHECK: exec.kernel @tanh_0
// CHECK: exec.kernel @reduce_add_1
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = nn.tanh %x : tensor<4x4xf32>
  %1 = nn.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.reduce max %1 dims [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  %3 = nn.add %0, %2 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// A slice is read where it is; a reshape is another name for the same bytes, and
// what is returned through it is computed where the caller wants it.
// CHECK: exec.kernel @relu_0
// CHECK: exec.func @stage0_forward(%[[X:.*]]: memref<4x16xf32>, %[[Y:.*]]: memref<32xf32>)
// CHECK: %[[OUT:.*]] = exec.view %[[Y]] at 0 : memref<32xf32> to memref<2x16xf32>
// CHECK: exec.launch @relu_0(%[[X]]) -> (%[[OUT]])
// CHECK-NOT: exec.copy
func.func @main(%x: tensor<4x16xf32>) -> tensor<32xf32> {
  %0 = nn.slice %x from [2, 0] : (tensor<4x16xf32>) -> tensor<2x16xf32>
  %1 = nn.relu %0 : tensor<2x16xf32>
  %2 = nn.reshape %1 : (tensor<2x16xf32>) -> tensor<32xf32>
  return %2 : tensor<32xf32>
}
