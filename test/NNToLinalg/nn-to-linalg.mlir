// RUN: kerf-opt %s --kerf-nn-to-linalg --split-input-file --verify-diagnostics | FileCheck %s

// What an op's definition says of elements is the body of a loop nest; operands
// are right-aligned.
// CHECK: #[[ROW:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @elements
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK-SAME: ins(%{{.*}}, %{{.*}} : tensor<4x6xbf16>, tensor<6xbf16>)
// CHECK: arith.extf
// CHECK: %[[SUM:.*]] = arith.addf {{.*}} : f32
// CHECK: arith.truncf %[[SUM]] : f32 to bf16
// CHECK-NOT: nn.
func.func @elements(%x: tensor<4x6xbf16>, %y: tensor<6xbf16>) -> tensor<4x6xbf16> {
  %0 = nn.add %x, %y : (tensor<4x6xbf16>, tensor<6xbf16>) -> tensor<4x6xbf16>
  return %0 : tensor<4x6xbf16>
}

// An optimizer's step is one loop nest, with its state.
// CHECK-LABEL: func.func @update
// CHECK: %[[NEW:.*]]:2 = linalg.generic
// CHECK: return %[[NEW]]#0, %[[NEW]]#1
func.func @update(%w: tensor<3xf32>, %g: tensor<3xf32>, %v: tensor<3xf32>, %lr: tensor<f32>)
    -> (tensor<3xf32>, tensor<3xf32>) {
  %w1, %v1 = nn.sgd_update %w, %g, %v, %lr momentum 0.9 weight_decay 0.0 : tensor<3xf32>
  return %w1, %v1 : tensor<3xf32>, tensor<3xf32>
}

// -----

func.func @no_form(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @below {{has no form in linalg}}
  %0 = nn.softmax %x dim 1 : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @no_type(%x: tensor<4xui8>) -> tensor<4xui8> {
  // expected-error @below {{has elements of 'ui8', with which upstream's dialects do not compute}}
  %0 = nn.add %x, %x : tensor<4xui8>
  return %0 : tensor<4xui8>
}

// -----

func.func @no_codes(%x: tensor<4xf8E5M2>) -> tensor<4xf32> {
  // expected-error @below {{has elements of 'f8E5M2', with which upstream's dialects do not compute}}
  %0 = nn.cast %x : (tensor<4xf8E5M2>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
