// RUN: kerf-opt %s --split-input-file --verify-diagnostics --kerf-form-groups
// REQUIRES: kerf-opt

// expected-error @below {{has more than one block}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
^next:
  return %x : tensor<4xf32>
}

// -----

// A kernel works over the product's result, but its other input is no product.
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = exec.empty : tensor<4x4xf32>
  // expected-error @below {{offers what no group does}}
  %0 = exec.matmul 0 "" m 4 n 4 k 4 lhs(%x : tensor<4x4xf32>) rhs(%x : tensor<4x4xf32>) dst(%e : tensor<4x4xf32>)
    relu_gradient <forward = 3, kernel = 7> : tensor<4x4xf32>
  %1 = exec.group 0 "" (%a = %0 : tensor<4x4xf32>, %b = %y : tensor<4x4xf32>) into(%0 : tensor<4x4xf32>) {
    %2 = nn.add %a, %b : tensor<4x4xf32>
    exec.yield %2 : tensor<4x4xf32>
  }
  return %1 : tensor<4x4xf32>
}
