// What depends on parameters alone runs once, at load.
// RUN: kerf-opt %s --split-input-file --prepare --form-groups --bufferize | FileCheck %s
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

// A mark that is not true is taken away: what a step changes is no constant.
// CHECK: exec.func @stage0_forward(
// CHECK: exec.launch @exp
func.func @main(%g: tensor<64xf32>) -> tensor<64xf32> {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<64xf32>
  %a = nn.exp %w {exec.at_load} : tensor<64xf32>
  %n = nn.add %w, %g : tensor<64xf32>
  dist.assign %w, %n : tensor<64xf32>
  return %a : tensor<64xf32>
}
