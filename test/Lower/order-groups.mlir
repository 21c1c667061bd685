// The order in which a function runs, and the numbers of kernels and calls.
// RUN: kerf-opt %s --split-input-file --kerf-order-groups | FileCheck %s
// REQUIRES: kerf-opt

// What is written over an old value runs as soon as it can, behind all that read
// that; then what comes first in the program.
// CHECK-LABEL: func.func @early
// CHECK: exec.group 0 "exp" (%{{.*}} = %[[W:[^ ]*]] : tensor<4xf32>)
// CHECK: exec.group 1 "update" ({{.*}}) into(%[[W]] : tensor<4xf32>)
// CHECK: exec.group 2 "relu"
// CHECK: dist.assign
// CHECK: return
func.func @early(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
  %e = exec.empty : tensor<4xf32>
  %0 = exec.group 0 "exp" (%a = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
    %3 = nn.exp %a : tensor<4xf32>
    exec.yield %3 : tensor<4xf32>
  }
  %f = exec.empty : tensor<4xf32>
  %1 = exec.group 1 "relu" (%a = %x : tensor<4xf32>) into(%f : tensor<4xf32>) {
    %3 = nn.relu %a : tensor<4xf32>
    exec.yield %3 : tensor<4xf32>
  }
  %2 = exec.group 2 "update" (%a = %w : tensor<4xf32>, %b = %x : tensor<4xf32>) into(%w : tensor<4xf32>) {
    %3 = nn.sub %a, %b : tensor<4xf32>
    exec.yield %3 : tensor<4xf32>
  }
  dist.assign %w, %2 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Numbers go on from function to function; what runs at load comes first.
// CHECK-LABEL: func.func @first
// CHECK: exec.group 1 "step"
// CHECK: exec.matmul 0
// CHECK: exec.group 0 "derived" at_load
// CHECK-LABEL: func.func @second
// CHECK: exec.group 2 "other"
// CHECK: exec.matmul 1
func.func @first(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = nn.weight "w" file 0 at 0 : tensor<4x4xf32>
  %e = exec.empty : tensor<4x4xf32>
  %0 = exec.group 7 "step" (%a = %x : tensor<4x4xf32>) into(%e : tensor<4x4xf32>) {
    %3 = nn.exp %a : tensor<4x4xf32>
    exec.yield %3 : tensor<4x4xf32>
  }
  %f = exec.empty : tensor<4x4xf32>
  %1 = exec.matmul 3 "" m 4 n 4 k 4 lhs(%0 : tensor<4x4xf32>) rhs(%w : tensor<4x4xf32>) dst(%f : tensor<4x4xf32>) : tensor<4x4xf32>
  %h = exec.empty : tensor<4x4xf32>
  %2 = exec.group 8 "derived" at_load (%a = %w : tensor<4x4xf32>) into(%h : tensor<4x4xf32>) {
    %3 = nn.exp %a : tensor<4x4xf32>
    exec.yield %3 : tensor<4x4xf32>
  }
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @second(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = exec.empty : tensor<4x4xf32>
  %0 = exec.group 7 "other" (%a = %x : tensor<4x4xf32>) into(%e : tensor<4x4xf32>) {
    %3 = nn.exp %a : tensor<4x4xf32>
    exec.yield %3 : tensor<4x4xf32>
  }
  %f = exec.empty : tensor<4x4xf32>
  %1 = exec.matmul 3 "" m 4 n 4 k 4 lhs(%0 : tensor<4x4xf32>) rhs(%x : tensor<4x4xf32>) dst(%f : tensor<4x4xf32>) : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// Views of views name a destination; offers follow the numbers of whom they mean.
// CHECK-LABEL: func.func @places
// CHECK: %[[W:.*]] = nn.weight "w"
// CHECK: exec.matmul 0 {{.*}}sums(%[[S:.*]] : tensor<4xf32>) <of = rhs, rows = 1, kernel = 0>
// CHECK: exec.group 0 "sums" {{.*}} into(%[[S]] : tensor<4xf32>)
// CHECK: %[[R:.*]] = nn.reshape %[[W]]
// CHECK: %[[V:.*]] = nn.reshape %[[R]]
// CHECK: exec.group 1 "update" {{.*}} into(%[[V]] : tensor<4x4xf32>)
func.func @places(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<16xf32>
  %e = exec.empty : tensor<4x4xf32>
  %s = exec.empty : tensor<4xf32>
  %0 = exec.matmul 5 "" m 4 n 4 k 4 lhs(%x : tensor<4x4xf32> strides [1, 4]) rhs(%x : tensor<4x4xf32>)
    dst(%e : tensor<4x4xf32>) sums(%s : tensor<4xf32>) <of = rhs, rows = 1, kernel = 9> : tensor<4x4xf32>
  %1 = exec.group 3 "sums" (%a = %x : tensor<4x4xf32>) into(%s : tensor<4xf32>) {
    %5 = nn.reduce sum %a dims [0] : (tensor<4x4xf32>) -> tensor<4xf32>
    exec.yield %5 : tensor<4xf32>
  }
  %r = nn.reshape %w : (tensor<16xf32>) -> tensor<2x8xf32>
  %v = nn.reshape %r : (tensor<2x8xf32>) -> tensor<4x4xf32>
  %2 = exec.group 3 "update" (%a = %x : tensor<4x4xf32>) into(%v : tensor<4x4xf32>) {
    %5 = nn.exp %a : tensor<4x4xf32>
    exec.yield %5 : tensor<4x4xf32>
  }
  %t = nn.reshape %2 : (tensor<4x4xf32>) -> tensor<16xf32>
  dist.assign %w, %t : tensor<16xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4xf32>
}

// -----

// Views that name destinations stand in front of what writes there, behind the
// memory that they view.
// CHECK-LABEL: func.func @parts
// CHECK: %[[WHOLE:.*]] = exec.empty : tensor<2x16xf32>
// CHECK-NEXT: %[[VIEW:.*]] = nn.slice %[[WHOLE]] from [1, 0]
// CHECK-NEXT: %[[PLACE:.*]] = nn.reshape %[[VIEW]]
// CHECK-NEXT: %[[Y:.*]] = exec.group 0 "exp" {{.*}} into(%[[PLACE]] : tensor<16xf32>)
// CHECK: exec.join %{{.*}}, %{{.*}} into(%[[WHOLE]] : tensor<2x16xf32>)
func.func @parts(%x: tensor<16xf32>, %y: tensor<1x16xf32>) -> tensor<2x16xf32> {
  %e = exec.empty : tensor<2x16xf32>
  %p = nn.slice %e from [1, 0] : (tensor<2x16xf32>) -> tensor<1x16xf32>
  %q = nn.reshape %p : (tensor<1x16xf32>) -> tensor<16xf32>
  %0 = exec.group 0 "exp" (%a = %x : tensor<16xf32>) into(%q : tensor<16xf32>) {
    %3 = nn.exp %a : tensor<16xf32>
    exec.yield %3 : tensor<16xf32>
  }
  %1 = nn.reshape %0 : (tensor<16xf32>) -> tensor<1x16xf32>
  %2 = exec.join %y, %1 into(%e : tensor<2x16xf32>) : tensor<1x16xf32>, tensor<1x16xf32>
  return %2 : tensor<2x16xf32>
}

// -----

// On a GPU updates wait for others, so that one launch computes many, but not
// one of which something else waits: all of the backward pass would.
// CHECK-LABEL: module attributes {exec.target = #exec.target<cuda
// CHECK: exec.group 0 "common"
// CHECK: exec.group 1 "backward"
// CHECK: exec.group 2 "other"
// CHECK: exec.group 3 "update"
module attributes {exec.target = #exec.target<cuda>} {
  func.func @held(%x: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
    %v = nn.weight "v" file 0 at 16 {variable} : tensor<4xf32>
    %0 = exec.group 0 "update" (%a = %v : tensor<4xf32>, %b = %g : tensor<4xf32>) into(%v : tensor<4xf32>) attributes {exec.update} {
      %5 = nn.sub %a, %b : tensor<4xf32>
      exec.yield %5 : tensor<4xf32>
    }
    dist.assign %v, %0 : tensor<4xf32>
    %e = exec.empty : tensor<4xf32>
    %1:2 = exec.group 1 "common" (%a = %w : tensor<4xf32>, %b = %g : tensor<4xf32>)
      into(%e : tensor<4xf32>, %w : tensor<4xf32>) attributes {exec.update} {
      %5 = nn.mul %b, %b : tensor<4xf32>
      %6 = nn.sub %a, %5 : tensor<4xf32>
      exec.yield %5, %6 : tensor<4xf32>, tensor<4xf32>
    }
    dist.assign %w, %1#1 : tensor<4xf32>
    %f = exec.empty : tensor<4xf32>
    %2 = exec.group 2 "backward" (%a = %1#0 : tensor<4xf32>) into(%f : tensor<4xf32>) {
      %5 = nn.exp %a : tensor<4xf32>
      exec.yield %5 : tensor<4xf32>
    }
    %h = exec.empty : tensor<4xf32>
    %3 = exec.group 3 "other" (%a = %x : tensor<4xf32>) into(%h : tensor<4xf32>) {
      %5 = nn.exp %a : tensor<4xf32>
      exec.yield %5 : tensor<4xf32>
    }
    return %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
}
