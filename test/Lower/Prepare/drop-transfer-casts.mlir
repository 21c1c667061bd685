// RUN: kerf-opt %s --kerf-drop-transfer-casts | FileCheck %s
// REQUIRES: kerf-opt

// Without the attribute both casts are the same: kerf-merge-equal-ops makes one of them.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: nn.cast %arg0 :
// CHECK-NEXT: nn.cast %arg0 :
// CHECK-NEXT: return
func.func @main(%g: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %0 = nn.cast %g {kerf.transfer_cast} : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = nn.cast %g : (tensor<4xf32>) -> tensor<4xbf16>
  return %0, %1 : tensor<4xbf16>, tensor<4xbf16>
}
