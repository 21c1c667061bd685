// Short forms say the same as long ones; where one would lose something, the long one is printed.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -verify-roundtrip | FileCheck %s

// One type for operands and result; both forms are read.
// CHECK-LABEL: func.func @types
func.func @types(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  // CHECK: nn.add %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %0 = nn.add %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = nn.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.less %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %2 = nn.less %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  return
}

// Vectors of one type, or all types.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x3xbf16>, %s: tensor<3xbf16>, %b: tensor<3xf32>) {
  // CHECK: nn.layer_norm %{{.*}} dim 1 epsilon 0.5 : tensor<2x3xbf16>, tensor<3xbf16>
  %0 = nn.layer_norm %x, %s, %s dim 1 epsilon 0.5 : tensor<2x3xbf16>, tensor<3xbf16>
  // CHECK: nn.layer_norm %{{.*}} dim 1 epsilon 1.0e-05 : (tensor<2x3xbf16>, tensor<3xbf16>, tensor<3xf32>) -> tensor<2x3xbf16>
  %1 = nn.layer_norm %x, %s, %b dim 1 epsilon 9.99999974737875163555145263671875E-6
     : (tensor<2x3xbf16>, tensor<3xbf16>, tensor<3xf32>) -> tensor<2x3xbf16>
  // The same number of f32, and one that none is.
  // CHECK: nn.rms_norm %{{.*}} epsilon 1.0e-05 :
  %3 = nn.rms_norm %x, %s dim 1 epsilon 1.0e-05 : tensor<2x3xbf16>, tensor<3xbf16>
  // CHECK: nn.rms_norm %{{.*}} epsilon 1.0e-05 f64 :
  %4 = nn.rms_norm %x, %s dim 1 epsilon 1.0e-05 f64 : tensor<2x3xbf16>, tensor<3xbf16>
  // CHECK: epsilon 0x7FF0000000000000 :
  %2 = nn.rms_norm %x, %s dim 1 epsilon 0x7FF0000000000000 : tensor<2x3xbf16>, tensor<3xbf16>
  return
}

// A window in full, and what is left out of it.
// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<1x8x8x4xf32>, %w: tensor<6x2x3x3xf32>, %h: tensor<6x2x3x3xbf16>) {
  // CHECK: nn.conv %{{.*}}, %{{.*}} kernel 3x3 strides 1x2 low 1x0 high 0x1 dilations 1x2 groups 2 : tensor<1x8x8x4xf32> -> tensor<1x7x3x6xf32>
  %0 = nn.conv %x, %w kernel 3x3 strides 1x2 low 1x0 high 0x1 dilations 1x2 groups 2
     : (tensor<1x8x8x4xf32>, tensor<6x2x3x3xf32>) -> tensor<1x7x3x6xf32>
  // Weights of another element type do not follow from the image's.
  // CHECK: nn.conv %{{.*}}, %{{.*}} kernel 3x3 groups 2 : (tensor<1x8x8x4xf32>, tensor<6x2x3x3xbf16>) -> tensor<1x6x6x6xf32>
  %1 = nn.conv %x, %h kernel 3x3 strides 1x1 pad 0x0 dilations 1x1 groups 2
     : (tensor<1x8x8x4xf32>, tensor<6x2x3x3xbf16>) -> tensor<1x6x6x6xf32>
  // CHECK: nn.max_pool %{{.*}} kernel 2x2 low [-1, 0] high 1x0 : (tensor<1x8x8x4xf32>) -> tensor<1x7x7x4xf32>
  %2 = nn.max_pool %x kernel 2x2 low [-1, 0] high 1x0 : (tensor<1x8x8x4xf32>) -> tensor<1x7x7x4xf32>
  return
}

// CHECK-LABEL: func.func @boxes
func.func @boxes(%x: tensor<4x6xf32>) {
  // CHECK: nn.slice %{{.*}} from [0, 1] : (tensor<4x6xf32>) -> tensor<4x5xf32>
  %0 = nn.slice %x from [0, 1] strides [1, 1] : (tensor<4x6xf32>) -> tensor<4x5xf32>
  // CHECK: nn.slice %{{.*}} from [3, 1] strides [-1, 1] : (tensor<4x6xf32>) -> tensor<4x5xf32>
  %1 = nn.slice %x from [3, 1] strides [-1, 1] : (tensor<4x6xf32>) -> tensor<4x5xf32>
  // CHECK: nn.weight "w" file 1 at 64 : tensor<4x6xf32>
  %2 = "nn.weight"() <{name = "w", file = 1 : i64, offset = 64 : i64, length = 96 : i64, stored = tensor<4x6xf32>}> : () -> tensor<4x6xf32>
  return
}

// With velocity and without; the long form is read, too.
// CHECK-LABEL: func.func @updates
func.func @updates(%w: tensor<3xf32>, %lr: tensor<f32>) {
  // CHECK: nn.sgd_update %{{.*}}, %{{.*}}, %{{.*}} momentum 0.0 weight_decay 0.1 : tensor<3xf32>
  %0 = nn.sgd_update %w, %w, %lr momentum 0.0 weight_decay 0.1 : (tensor<3xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK: nn.sgd_update %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} momentum 0.9 weight_decay 0.0 {nesterov} : tensor<3xf32>
  %1:2 = nn.sgd_update %w, %w, %w, %lr momentum 0.9 weight_decay 0.0 {nesterov} : tensor<3xf32>
  return
}
