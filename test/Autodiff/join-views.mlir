// Views of one weight that overlap become slices of the smallest view that holds them; others stay sources of their own.
//
// RUN: kerf-opt %s --split-input-file '--kerf-autodiff=loss=mse(y,t) optimizer=sgd,lr=0.5' | FileCheck %s
// REQUIRES: kerf-opt

// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = nn.weight "w" file 0 at 0 {variable} : tensor<6x3xf32> of tensor<9x3xf32> from [1, 0]
// CHECK-NEXT: nn.slice %[[W]] from [0, 0]
// CHECK-NEXT: nn.slice %[[W]] from [2, 0]
// CHECK-NEXT: %[[APART:.*]] = nn.weight "w" file 0 at 0 {variable} : tensor<2x3xf32> of tensor<9x3xf32> from [7, 0]
// CHECK: dist.assign %[[W]], {{.*}} : tensor<6x3xf32>
// CHECK-NEXT: dist.assign %[[APART]], {{.*}} : tensor<2x3xf32>
// CHECK-NOT: dist.assign
func.func @main(%x: tensor<2x4xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<2x3xf32> {kerf.name = "y"}) {
  %a = nn.weight "w" file 0 at 0 : tensor<4x3xf32> of tensor<9x3xf32> from [1, 0]
  %b = nn.weight "w" file 0 at 0 : tensor<4x3xf32> of tensor<9x3xf32> from [3, 0]
  %apart = nn.weight "w" file 0 at 0 : tensor<2x3xf32> of tensor<9x3xf32> from [7, 0]
  %c = nn.add %a, %b : tensor<4x3xf32>
  %y = nn.matmul %x, %c : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %z = nn.add %y, %apart : tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

// -----

// A weight that is read in two shapes is one parameter: the second is a view of the first.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = nn.weight "w" file 0 at 0 {variable} : tensor<12x3xf32>
// CHECK-NEXT: nn.reshape %[[W]] {{.*}} : (tensor<12x3xf32>) -> tensor<36xf32>
// CHECK: dist.assign %[[W]], {{.*}} : tensor<12x3xf32>
// CHECK-NOT: dist.assign
func.func @main(%x: tensor<2x12xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<2x3xf32> {kerf.name = "y"}) {
  %a = nn.weight "w" file 0 at 0 : tensor<12x3xf32>
  %b = nn.weight "w" file 0 at 0 : tensor<36xf32>
  %y = nn.matmul %x, %a : (tensor<2x12xf32>, tensor<12x3xf32>) -> tensor<2x3xf32>
  %bias = nn.slice %b from [0] : (tensor<36xf32>) -> tensor<3xf32>
  %z = nn.add %y, %bias : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}
