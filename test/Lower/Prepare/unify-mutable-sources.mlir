// One op per source that a step changes, however often it is named; a source that becomes the value of another, or is
// returned, is copied first.
// RUN: kerf-opt %s --split-input-file --kerf-unify-mutable-sources | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = nn.state "w"
// CHECK-NOT: nn.state
// CHECK: nn.add %[[W]], %[[W]]
func.func @main() -> tensor<4xf32> {
  %0 = nn.state "w" {init = 0.0 : f32} : tensor<4xf32>
  %1 = nn.state "w" {init = 0.0 : f32} : tensor<4xf32>
  %2 = nn.add %0, %1 : tensor<4xf32>
  dist.assign %0, %2 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = nn.state "a"
// CHECK: %[[B:.*]] = nn.state "b"
// CHECK: %[[COPY_B:.*]] = nn.cast %[[B]]
// CHECK: dist.assign %[[A]], %[[COPY_B]]
// CHECK: %[[COPY_A:.*]] = nn.cast %[[A]]
// CHECK: dist.assign %[[B]], %[[COPY_A]]
func.func @main() {
  %0 = nn.state "a" {init = 0.0 : f32} : tensor<4xf32>
  %1 = nn.state "b" {init = 1.0 : f32} : tensor<4xf32>
  dist.assign %0, %1 : tensor<4xf32>
  dist.assign %1, %0 : tensor<4xf32>
  return
}
