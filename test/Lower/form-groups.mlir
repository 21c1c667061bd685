// What is computed together, in which order, and where results are written.
// RUN: kerf-opt %s --split-input-file --kerf-prepare --kerf-form-groups | FileCheck %s
// What is printed is parsed: buffers follow from the text.
// RUN: kerf-opt %s --split-input-file --kerf-prepare --kerf-form-groups \
// RUN:   | kerf-opt --split-input-file --kerf-bufferize | FileCheck %s --check-prefix=BUFFERS
// REQUIRES: kerf-opt

// A library call with its epilogue, a group with two results, a view.
// CHECK-LABEL: func.func @main(%arg0: tensor<2x3xf32>)
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: %[[B:.*]] = nn.weight "b"
// CHECK: %[[E:.*]] = exec.empty : tensor<2x4xf32>
// CHECK: %[[H:.*]] = exec.matmul 0 "" m 2 n 4 k 3 lhs(%arg0 : tensor<2x3xf32>) rhs(%[[W]] : tensor<3x4xf32>)
// CHECK-SAME: bias(%[[B]] : tensor<4xf32>) dst(%[[E]] : tensor<2x4xf32>) then [relu] : tensor<2x4xf32>
// CHECK: %[[E0:.*]] = exec.empty : tensor<2x4xf32>
// CHECK: %[[E1:.*]] = exec.empty : tensor<2x4xf32>
// CHECK: %[[G:.*]]:2 = exec.group 0 "" (%[[A:.*]] = %[[H]] : tensor<2x4xf32>) into(%[[E0]] : tensor<2x4xf32>, %[[E1]] : tensor<2x4xf32>) {
// CHECK-NEXT: %[[EXP:.*]] = nn.exp %[[A]] : tensor<2x4xf32>
// CHECK-NEXT: %[[MUL:.*]] = nn.mul %[[EXP]], %[[A]] : tensor<2x4xf32>
// CHECK-NEXT: exec.yield %[[EXP]], %[[MUL]] : tensor<2x4xf32>, tensor<2x4xf32>
// CHECK: %[[V:.*]] = nn.reshape %[[G]]#1
// CHECK: return %[[V]], %[[G]]#0
// BUFFERS: exec.kernel @exp_mul_0
// BUFFERS: exec.func @stage0_forward(%[[X:.*]]: memref<2x3xf32>, %[[Y0:.*]]: memref<8xf32>, %[[Y1:.*]]: memref<2x4xf32>)
// BUFFERS: %[[H:.*]] = exec.arena : memref<2x4xf32>
// BUFFERS: exec.matmul 0 {{.*}} dst(%[[H]] : memref<2x4xf32>) then [relu]{{$}}
// BUFFERS: %[[V:.*]] = exec.view %[[Y0]] at 0
// BUFFERS: exec.launch @exp_mul_0(%[[H]]) -> (%[[Y1]], %[[V]])
func.func @main(%x: tensor<2x3xf32>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
  %b = nn.weight "b" file 0 at 48 : tensor<4xf32>
  %0 = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = nn.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = nn.relu %1 : tensor<2x4xf32>
  %3 = nn.exp %2 : tensor<2x4xf32>
  %4 = nn.mul %3, %2 : tensor<2x4xf32>
  %5 = nn.reshape %4 : (tensor<2x4xf32>) -> tensor<8xf32>
  return %5, %3 : tensor<8xf32>, tensor<2x4xf32>
}

// -----

// What depends on parameters alone is computed at load.
// CHECK: %[[E:.*]] = exec.group 0 "" at_load (%{{.*}} = %{{.*}} : tensor<4xf32>)
// CHECK: exec.group 1 "" (%{{.*}} = %arg0 : tensor<2x4xf32>, %{{.*}} = %[[E]] : tensor<4xf32>)
// BUFFERS: exec.parameter 0 "derived_0"
// BUFFERS: exec.func @stage0_forward_init
// BUFFERS: exec.launch @exp_0
// BUFFERS: exec.func @stage0_forward(
// BUFFERS: exec.launch @add_1
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %b = nn.weight "b" file 0 at 48 : tensor<4xf32>
  %0 = nn.exp %b : tensor<4xf32>
  %1 = nn.add %x, %0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// A step writes over what it reads, after all others have read it; the old value
// of another parameter is copied first.
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: %[[V:.*]] = nn.weight "v"
// CHECK: %[[COPY:.*]] = exec.group 0 "" (%{{.*}} = %[[W]] : tensor<4xf32>) into(%[[V]] : tensor<4xf32>)
// CHECK: %[[E:.*]] = exec.empty
// CHECK: %[[EXP:.*]] = exec.group 1 "" (%{{.*}} = %[[W]] : tensor<4xf32>) into(%[[E]] : tensor<4xf32>)
// CHECK: %[[NEW:.*]] = exec.group 2 "" (%{{.*}} = %[[W]] : tensor<4xf32>, %{{.*}} = %arg0 : tensor<4xf32>) into(%[[W]] : tensor<4xf32>)
// CHECK: dist.assign %[[W]], %[[NEW]]
// CHECK: dist.assign %[[V]], %[[COPY]]
// CHECK: return %[[EXP]]
// BUFFERS: %[[V:.*]] = exec.param 1
// BUFFERS: %[[W:.*]] = exec.param 0
// BUFFERS: exec.launch @cast_0(%[[W]]) -> (%[[V]])
// BUFFERS: exec.launch @exp_1(%[[W]])
// BUFFERS: exec.launch @sub_2(%[[W]], %{{.*}}) -> (%[[W]])
// BUFFERS-NOT: exec.copy
func.func @main(%g: tensor<4xf32>) -> tensor<4xf32> {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %v = nn.weight "v" file 0 at 16 {variable} : tensor<4xf32>
  %0 = nn.sub %w, %g : tensor<4xf32>
  %1 = nn.exp %w : tensor<4xf32>
  dist.assign %w, %0 : tensor<4xf32>
  dist.assign %v, %w : tensor<4xf32>
  return %1 : tensor<4xf32>
}
