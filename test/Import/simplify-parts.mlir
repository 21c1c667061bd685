// RUN: kerf-opt %s --kerf-simplify-import | FileCheck %s
// REQUIRES: kerf-opt

// Bags of two rows, each summed by itself and put behind each other (a loop that import has written out): one sum along
// one more dimension, so that bags can be cut.
// CHECK-LABEL: @bags
// CHECK-NEXT: %[[R:.*]] = nn.reshape %arg0 : (tensor<6x4xf32>) -> tensor<3x2x4xf32>
// CHECK-NEXT: %[[S:.*]] = nn.reduce sum %[[R]] dims [1] : (tensor<3x2x4xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: return %[[S]]
func.func @bags(%x: tensor<6x4xf32>) -> tensor<3x4xf32> {
  %0 = nn.slice %x from [0, 0] : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %1 = nn.reduce sum %0 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %2 = nn.reshape %1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %3 = nn.slice %x from [2, 0] : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %4 = nn.reduce sum %3 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %5 = nn.reshape %4 : (tensor<4xf32>) -> tensor<1x4xf32>
  %6 = nn.slice %x from [4, 0] : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %7 = nn.reduce sum %6 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %8 = nn.reshape %7 : (tensor<4xf32>) -> tensor<1x4xf32>
  %9 = nn.concat %2, %5, %8 dim 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %9 : tensor<3x4xf32>
}

// A mean that is multiplied by a half in one part and divided by two in the other (as the exporter has it in the last bag).
// CHECK-LABEL: @means
// CHECK: nn.reduce sum %{{.*}} dims [1] : (tensor<2x2x4xf32>) -> tensor<2x4xf32>
// CHECK: nn.mul %{{.*}} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
// CHECK-NEXT: return
func.func @means(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.slice %x from [0, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.reduce sum %0 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %2 = nn.mul %1, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.reshape %2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %4 = nn.slice %x from [2, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = nn.reduce sum %4 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %6 = nn.div %5, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = nn.reshape %6 : (tensor<4xf32>) -> tensor<1x4xf32>
  %8 = nn.concat %3, %7 dim 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %8 : tensor<2x4xf32>
}

// Parts that overlap, are of other kinds, or in another order stay.
// CHECK-LABEL: @overlapping
// CHECK-COUNT-2: nn.reduce max
func.func @overlapping(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.slice %x from [0, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.reduce max %0 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %2 = nn.reshape %1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %3 = nn.slice %x from [1, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = nn.reduce max %3 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %5 = nn.reshape %4 : (tensor<4xf32>) -> tensor<1x4xf32>
  %6 = nn.concat %2, %5 dim 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}
// CHECK-LABEL: @kinds
// CHECK: nn.reduce max
// CHECK: nn.reduce sum
func.func @kinds(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.slice %x from [0, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.reduce max %0 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %2 = nn.reshape %1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %3 = nn.slice %x from [2, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = nn.reduce sum %3 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %5 = nn.reshape %4 : (tensor<4xf32>) -> tensor<1x4xf32>
  %6 = nn.concat %2, %5 dim 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}
// CHECK-LABEL: @backwards
// CHECK-COUNT-2: nn.reduce sum
func.func @backwards(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.slice %x from [2, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.reduce sum %0 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %2 = nn.reshape %1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %3 = nn.slice %x from [0, 0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = nn.reduce sum %3 dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
  %5 = nn.reshape %4 : (tensor<4xf32>) -> tensor<1x4xf32>
  %6 = nn.concat %2, %5 dim 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}
