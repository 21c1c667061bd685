// What is in no group is not taken for a view.
// RUN: kerf-opt %s --split-input-file --kerf-bufferize --verify-diagnostics
// REQUIRES: kerf-opt

func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{'nn.relu' op stands in no group (see kerf-form-kernels)}}
  %0 = nn.relu %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @main(%x: tensor<4x4xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{'nn.slice' op stands in no group (see kerf-form-kernels)}}
  %0 = nn.slice %x from [0, 2] : (tensor<4x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
