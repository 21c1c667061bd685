// What a step assigns is written over the old value where it is computed.
// RUN: kerf-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(kerf-write-in-place))' | FileCheck %s
// REQUIRES: kerf-opt

// The kernel reads each element only where it writes it; the other reader of the
// old value can run before.
// CHECK-LABEL: func.func @update
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: exec.group 0 "" (%{{.*}} = %[[W]] : tensor<4xf32>, %{{.*}} = %arg0 : tensor<4xf32>) into(%[[W]] : tensor<4xf32>)
// CHECK: %[[E:.*]] = exec.empty
// CHECK: exec.group 1 "" {{.*}} into(%[[E]] : tensor<4xf32>)
func.func @update(%g: tensor<4xf32>) -> tensor<4xf32> {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %w : tensor<4xf32>, %b = %g : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %2 = nn.sub %a, %b : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  %f = exec.empty : tensor<4xf32>
  %1 = exec.group 1 "" (%a = %w : tensor<4xf32>) into(%f : tensor<4xf32>) {
    %2 = nn.exp %a : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  dist.assign %w, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// What reads the old value reads the new one, too: it cannot run before.
// CHECK-LABEL: func.func @read_behind
// CHECK-DAG: %[[E:.*]] = exec.empty
// CHECK: exec.group 0 "" {{.*}} into(%[[E]] : tensor<4xf32>)
func.func @read_behind() -> tensor<4xf32> {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %2 = nn.exp %a : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  %f = exec.empty : tensor<4xf32>
  %1 = exec.group 1 "" (%a = %w : tensor<4xf32>, %b = %0 : tensor<4xf32>) into(%f : tensor<4xf32>) {
    %2 = nn.add %a, %b : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  dist.assign %w, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A transpose reads other elements than it writes.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[E:.*]] = exec.empty
// CHECK: exec.group 0 "" {{.*}} into(%[[E]] : tensor<4x4xf32>)
func.func @transposed() {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4x4xf32>
  %e = exec.empty : tensor<4x4xf32>
  %0 = exec.group 0 "" (%a = %w : tensor<4x4xf32>) into(%e : tensor<4x4xf32>) {
    %2 = nn.transpose %a perm [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    exec.yield %2 : tensor<4x4xf32>
  }
  dist.assign %w, %0 : tensor<4x4xf32>
  return
}

// -----

// Two sources that swap: one of them is written in place, the other is copied.
// CHECK-LABEL: func.func @swap
// CHECK: %[[V:.*]] = nn.weight "v"
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: exec.group 0 "" (%{{.*}} = %[[W]] : tensor<4xf32>) into(%[[V]] : tensor<4xf32>)
// CHECK: %[[E:.*]] = exec.empty
// CHECK: exec.group 1 "" (%{{.*}} = %[[V]] : tensor<4xf32>) into(%[[E]] : tensor<4xf32>)
func.func @swap() {
  %v = nn.weight "v" file 0 at 16 {variable} : tensor<4xf32>
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "" (%a = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %2 = nn.exp %a : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  %f = exec.empty : tensor<4xf32>
  %1 = exec.group 1 "" (%a = %v : tensor<4xf32>) into(%f : tensor<4xf32>) {
    %2 = nn.exp %a : tensor<4xf32>
    exec.yield %2 : tensor<4xf32>
  }
  dist.assign %v, %0 : tensor<4xf32>
  dist.assign %w, %1 : tensor<4xf32>
  return
}

// -----

// The source stands behind the kernel, and its value is a view of another shape.
// CHECK-LABEL: func.func @later_source
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: %[[V:.*]] = nn.reshape %[[W]] : (tensor<4xf32>) -> tensor<2x2xf32>
// CHECK: exec.group 0 "" {{.*}} into(%[[V]] : tensor<2x2xf32>)
func.func @later_source(%x: tensor<2x2xf32>) {
  %e = exec.empty : tensor<2x2xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<2x2xf32>) into(%e : tensor<2x2xf32>) {
    %2 = nn.exp %a : tensor<2x2xf32>
    exec.yield %2 : tensor<2x2xf32>
  }
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %1 = nn.reshape %0 : (tensor<2x2xf32>) -> tensor<4xf32>
  dist.assign %w, %1 : tensor<4xf32>
  return
}

// -----

// A call that changes rows of a cache changes them where they are.
// CHECK-LABEL: func.func @rows_of_a_cache
// CHECK: %[[S:.*]] = nn.state "s"
// CHECK-NOT: exec.empty
// CHECK: exec.scatter 0 {{.*}} base(%[[S]] : tensor<2x8x4xf32>) dst(%[[S]] : tensor<2x8x4xf32>)
func.func @rows_of_a_cache(%i: tensor<2x1xi64>, %u: tensor<2x1x4xf32>) -> tensor<2x8x4xf32> {
  %s = nn.state "s" {init = 0.0 : f32} : tensor<2x8x4xf32>
  %e = exec.empty : tensor<2x8x4xf32>
  %0 = exec.scatter 0 "" set outer 2 rows 8 inner 4 count 1 indices(%i : tensor<2x1xi64>)
    updates(%u : tensor<2x1x4xf32>) base(%s : tensor<2x8x4xf32>) dst(%e : tensor<2x8x4xf32>) : tensor<2x8x4xf32>
  dist.assign %s, %0 : tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// -----

// Not if it also reads the old rows as something else.
// CHECK-LABEL: func.func @rows_of_itself
// CHECK: %[[E:.*]] = exec.empty
// CHECK: exec.scatter 0 {{.*}} dst(%[[E]] : tensor<8x4xf32>)
func.func @rows_of_itself(%i: tensor<8xi64>) {
  %s = nn.state "s" {init = 0.0 : f32} : tensor<8x4xf32>
  %e = exec.empty : tensor<8x4xf32>
  %0 = exec.scatter 0 "" set outer 1 rows 8 inner 4 count 8 indices(%i : tensor<8xi64>)
    updates(%s : tensor<8x4xf32>) base(%s : tensor<8x4xf32>) dst(%e : tensor<8x4xf32>) : tensor<8x4xf32>
  dist.assign %s, %0 : tensor<8x4xf32>
  return
}

// -----

// Parts of a join are written where they belong: the first through a view of other
// sizes. The same value again, an argument, and what would begin within 64 bytes are
// not.
// CHECK-LABEL: func.func @parts
// CHECK: %[[WHOLE:.*]] = exec.empty : tensor<5x16xf32>
// CHECK: %[[VIEW:.*]] = nn.slice %[[WHOLE]] from [0, 0] : (tensor<5x16xf32>) -> tensor<1x16xf32>
// CHECK: %[[PLACE:.*]] = nn.reshape %[[VIEW]] : (tensor<1x16xf32>) -> tensor<16xf32>
// CHECK: exec.group 0 "" {{.*}} into(%[[PLACE]] : tensor<16xf32>)
// CHECK: %[[SECOND:.*]] = nn.slice %[[WHOLE]] from [3, 0]
// CHECK: exec.group 1 "" {{.*}} into(%[[SECOND]] : tensor<1x16xf32>)
func.func @parts(%x: tensor<16xf32>, %y: tensor<1x16xf32>) -> tensor<5x16xf32> {
  %e = exec.empty : tensor<16xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<16xf32>) into(%e : tensor<16xf32>) {
    %4 = nn.exp %a : tensor<16xf32>
    exec.yield %4 : tensor<16xf32>
  }
  %1 = nn.reshape %0 : (tensor<16xf32>) -> tensor<1x16xf32>
  %f = exec.empty : tensor<1x16xf32>
  %2 = exec.group 1 "" (%a = %1 : tensor<1x16xf32>) into(%f : tensor<1x16xf32>) {
    %4 = nn.exp %a : tensor<1x16xf32>
    exec.yield %4 : tensor<1x16xf32>
  }
  %g = exec.empty : tensor<5x16xf32>
  %3 = exec.join %1, %1, %y, %2, %y into(%g : tensor<5x16xf32>)
    : tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>
  return %3 : tensor<5x16xf32>
}

// -----

// CHECK-LABEL: func.func @unaligned_parts
// CHECK: %[[OWN:.*]] = exec.empty : tensor<1x6xf32>
// CHECK: exec.group 0 "" {{.*}} into(%[[OWN]] : tensor<1x6xf32>)
func.func @unaligned_parts(%x: tensor<1x6xf32>) -> tensor<2x6xf32> {
  %e = exec.empty : tensor<1x6xf32>
  %0 = exec.group 0 "" (%a = %x : tensor<1x6xf32>) into(%e : tensor<1x6xf32>) {
    %2 = nn.exp %a : tensor<1x6xf32>
    exec.yield %2 : tensor<1x6xf32>
  }
  %f = exec.empty : tensor<2x6xf32>
  %1 = exec.join %x, %0 into(%f : tensor<2x6xf32>) : tensor<1x6xf32>, tensor<1x6xf32>
  return %1 : tensor<2x6xf32>
}
