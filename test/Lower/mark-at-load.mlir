// What depends on parameters alone is computed once, at load.
// RUN: kerf-opt %s --split-input-file --kerf-mark-at-load | FileCheck %s
// REQUIRES: kerf-opt

// The factor of a norm goes into the weights of the convolution in front of it:
// weights and bias are derived, what reads the input is not. A reshape that only
// derived values read belongs to them.
// CHECK-LABEL: func.func @derived
// CHECK: nn.weight "v" file 0 at 240 : tensor<2xf32>
// CHECK-NEXT: %[[FACTOR:.*]] = nn.rsqrt %{{.*}} {exec.at_load}
// CHECK-NEXT: %[[COLUMN:.*]] = nn.reshape %[[FACTOR]] {exec.at_load}
// CHECK-NEXT: %[[WEIGHTS:.*]] = nn.mul %{{.*}}, %[[COLUMN]] {exec.at_load}
// CHECK-NEXT: %[[SHIFT:.*]] = nn.mul %{{.*}}, %[[FACTOR]] {exec.at_load}
// CHECK-NEXT: %[[CONV:.*]] = nn.conv %arg0, %[[WEIGHTS]] kernel 3x3 pad 1x1 :
// CHECK-NEXT: nn.add %[[CONV]], %[[SHIFT]] :
func.func @derived(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<2x3x3x3xf32>
  %b = nn.weight "b" file 0 at 224 : tensor<2xf32>
  %v = nn.weight "v" file 0 at 240 : tensor<2xf32>
  %0 = nn.rsqrt %v : tensor<2xf32>
  %1 = nn.reshape %0 : (tensor<2xf32>) -> tensor<2x1x1x1xf32>
  %2 = nn.mul %w, %1 : (tensor<2x3x3x3xf32>, tensor<2x1x1x1xf32>) -> tensor<2x3x3x3xf32>
  %3 = nn.mul %b, %0 : tensor<2xf32>
  %4 = nn.conv %x, %2 kernel 3x3 pad 1x1 : tensor<1x4x4x3xf32> -> tensor<1x4x4x2xf32>
  %5 = nn.add %4, %3 : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  return %5 : tensor<1x4x4x2xf32>
}

// -----

// A transposed weight is left to the product, which reads it with other strides.
// CHECK-LABEL: func.func @transposed
// CHECK: nn.transpose %{{.*}} perm [1, 0] :
// CHECK-NOT: exec.at_load
// CHECK: return
func.func @transposed(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<4x3xf32>
  %t = nn.transpose %w perm [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %0 = nn.matmul %x, %t : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// A mark that is not true is taken away: what a step changes is no constant.
// CHECK-LABEL: func.func @variable
// CHECK-NOT: exec.at_load
// CHECK: return
func.func @variable(%g: tensor<64xf32>) -> tensor<64xf32> {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<64xf32>
  %a = nn.exp %w {exec.at_load} : tensor<64xf32>
  %n = nn.add %w, %g : tensor<64xf32>
  dist.assign %w, %n : tensor<64xf32>
  return %a : tensor<64xf32>
}

// -----

// Which part a device has is known at load, which micro-batch comes is not.
// CHECK-LABEL: func.func @rank
// CHECK: nn.neg %{{.*}} {exec.at_load} : tensor<i64>
// CHECK: nn.abs %{{.*}} : tensor<i64>
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @rank() -> (tensor<i64>, tensor<i64>) {
  %0 = dist.shard_index ["tp"] scale 1 : tensor<i64>
  %1 = nn.neg %0 : tensor<i64>
  %2 = dist.shard_index ["mb"] scale 1 : tensor<i64>
  %3 = nn.abs %2 : tensor<i64>
  return %1, %3 : tensor<i64>, tensor<i64>
}

// -----

// The number of an element, from which dropout draws, is counted where it is read: kept, it would take 8 bytes for each element. A
// row of numbers that a call reads is kept, and so is what takes more than a few operations.
// CHECK-LABEL: func.func @places
// CHECK: %[[ROW:.*]] = nn.iota dim 0 : tensor<4x8xi64>
// CHECK-NEXT: %[[BEGIN:.*]] = nn.mul %[[ROW]], %{{.*}} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi64>
// CHECK-NEXT: %[[COLUMN:.*]] = nn.iota dim 1 : tensor<4x8xi64>
// CHECK-NEXT: %[[PLACE:.*]] = nn.add %[[COLUMN]], %[[BEGIN]] : tensor<4x8xi64>
// CHECK-NEXT: nn.philox %[[PLACE]], %arg0, %arg1
// CHECK: nn.iota dim 0 {exec.at_load} : tensor<8xi64>
// CHECK-NEXT: nn.gather
// CHECK: nn.cos %{{.*}} {exec.at_load} : tensor<8xf32>
func.func @places(%seed: tensor<i64>, %step: tensor<i64>, %x: tensor<8x3xf32>, %y: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<8x3xf32>, tensor<8xf32>) {
  %width = nn.constant dense<8> : tensor<i64>
  %row = nn.iota dim 0 : tensor<4x8xi64>
  %begin = nn.mul %row, %width : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi64>
  %column = nn.iota dim 1 : tensor<4x8xi64>
  %place = nn.add %column, %begin : tensor<4x8xi64>
  %drawn = nn.philox %place, %seed, %step {stream = 0 : i64} : (tensor<4x8xi64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  %rows = nn.iota dim 0 : tensor<8xi64>
  %picked = nn.gather %x, %rows dim 0 : (tensor<8x3xf32>, tensor<8xi64>) -> tensor<8x3xf32>
  %angles = nn.cast %rows : (tensor<8xi64>) -> tensor<8xf32>
  %waves = nn.cos %angles : tensor<8xf32>
  %sum = nn.add %y, %waves : tensor<8xf32>
  return %drawn, %picked, %sum : tensor<4x8xf32>, tensor<8x3xf32>, tensor<8xf32>
}
