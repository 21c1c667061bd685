// From tensor ops to kernels, calls and buffers: what single passes promise each other (prepare, kerf-form-groups, bufferize).
// RUN: kerf-opt %s --split-input-file --kerf-prepare --kerf-form-groups --kerf-bufferize | FileCheck %s
// REQUIRES: kerf-opt

// A batch norm goes into the convolution in front of it: scaled weights and a
// bias are derived, the step is one library call.
// CHECK-DAG: exec.parameter {{[0-9]}} "derived_0" : {{.*}} from #exec.derived {{.*}}library_only
// CHECK-DAG: exec.parameter {{[0-9]}} "derived_1" : {{.*}} from #exec.derived {{.*}}library_only
// CHECK: exec.func @stage0_forward_init(%{{.*}}: memref<{{.*}}>, %{{.*}}: memref<{{.*}}>) attributes {derived = array<i64: {{.*}}>
// CHECK: exec.func @stage0_forward
// CHECK-NEXT: %[[B:.*]] = exec.weight
// CHECK-NEXT: %[[W:.*]] = exec.weight
// CHECK-NEXT: exec.conv 0 {{.*}} batch 1 {{.*}} weights(%[[W]] : {{.*}} bias(%[[B]] : {{.*}} then [relu]
// CHECK-NEXT: exec.return
func.func @main(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<2x3x3x3xf32>
  %s = nn.weight "s" file 0 at 216 : tensor<2xf32>
  %b = nn.weight "b" file 0 at 224 : tensor<2xf32>
  %m = nn.weight "m" file 0 at 232 : tensor<2xf32>
  %v = nn.weight "v" file 0 at 240 : tensor<2xf32>
  %0 = nn.conv %x, %w kernel 3x3 pad 1x1 : tensor<1x4x4x3xf32> -> tensor<1x4x4x2xf32>
  %1 = nn.batch_norm %0, %s, %b, %m, %v epsilon 1.0e-05 : tensor<1x4x4x2xf32>, tensor<2xf32>
  %2 = nn.relu %1 : tensor<1x4x4x2xf32>
  return %2 : tensor<1x4x4x2xf32>
}

// -----

// A transposed weight is strides of a packed parameter, not a copy; one parameter
// for both uses.
// CHECK: exec.parameter 0 "w"
// CHECK-NOT: exec.parameter 1
// CHECK-NOT: exec.func @stage0_forward_init
// CHECK: rhs(%{{.*}} : !exec.weight<{{.*}}> strides [1, 3])
// CHECK: rhs(%{{.*}} : !exec.weight<{{[^ ]*}}>)
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<4x3xf32>
  %v = nn.weight "w" file 0 at 0 : tensor<4x3xf32>
  %t = nn.transpose %w perm [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %0 = nn.matmul %x, %t : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %v : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Attention: no transpose is a kernel, the scale is a post-op, the heads are
// joined by what the second product stores.
// CHECK: exec.kernel @add_softmax_0
// CHECK-NOT: exec.kernel
// CHECK: exec.func @stage0_forward
// CHECK: exec.matmul 0 "" batch [2, 3]
// CHECK-SAME: lhs(%{{.*}} strides [60, 4, 12, 1])
// CHECK-SAME: rhs(%{{.*}} strides [60, 4, 1, 12])
// CHECK-SAME: then [linear(5.000000e-01, 0.000000e+00)]
// CHECK: exec.launch @add_softmax_0
// CHECK: exec.matmul 1 "" batch [2, 3] {{.*}}dst(%{{.*}} : memref<2x5x12xf32> strides [60, 4, 12, 1])
// CHECK-NOT: exec.copy
func.func @main(%q: tensor<2x5x12xf32>, %k: tensor<2x5x12xf32>, %v: tensor<2x5x12xf32>, %mask: tensor<5x5xf32>)
    -> tensor<2x5x12xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %q0 = nn.reshape %q : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %q1 = nn.transpose %q0 perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %q2 = nn.mul %q1, %half : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3x5x4xf32>
  %k0 = nn.reshape %k : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %k1 = nn.transpose %k0 perm [0, 2, 3, 1] : (tensor<2x5x3x4xf32>) -> tensor<2x3x4x5xf32>
  %v0 = nn.reshape %v : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %v1 = nn.transpose %v0 perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %s = nn.matmul %q2, %k1 : (tensor<2x3x5x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x5x5xf32>
  %m = nn.add %s, %mask : (tensor<2x3x5x5xf32>, tensor<5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = nn.softmax %m dim 3 : tensor<2x3x5x5xf32>
  %o = nn.matmul %p, %v1 : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %o0 = nn.transpose %o perm [0, 2, 1, 3] : (tensor<2x3x5x4xf32>) -> tensor<2x5x3x4xf32>
  %o1 = nn.reshape %o0 : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
  return %o1 : tensor<2x5x12xf32>
}

// -----

// The library knows no integers: such a product is a kernel.
// CHECK: exec.kernel @matmul_0
// CHECK-NOT: exec.matmul
func.func @main(%x: tensor<2x3xi64>, %y: tensor<3x4xi64>) -> tensor<2x4xi64> {
  %0 = nn.matmul %x, %y : (tensor<2x3xi64>, tensor<3x4xi64>) -> tensor<2x4xi64>
  return %0 : tensor<2x4xi64>
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
