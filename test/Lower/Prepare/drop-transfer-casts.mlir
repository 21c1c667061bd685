// RUN: kerf-opt %s --drop-transfer-casts --cse | FileCheck %s
// REQUIRES: kerf-opt

// Without the attribute equal casts merge.
// CHECK: nn.cast
// CHECK-NOT: nn.cast
// CHECK: return
func.func @main(%g: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %0 = nn.cast %g {kerf.transfer_cast} : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = nn.cast %g : (tensor<4xf32>) -> tensor<4xbf16>
  return %0, %1 : tensor<4xbf16>, tensor<4xbf16>
}
