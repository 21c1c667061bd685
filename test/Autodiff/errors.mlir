// RUN: split-file %s %t
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(z,t)' 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=y' 2>&1 | FileCheck %s --check-prefix=SCALAR
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,x)' 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,t) frozen=w,u.*' 2>&1 | FileCheck %s --check-prefix=NOMATCH
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,t) frozen=w' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,t) trainable=(' 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not kerf-opt %t/missing.mlir '--kerf-autodiff=loss=mse(y,t)' 2>&1 | FileCheck %s --check-prefix=MISSING
// REQUIRES: kerf-opt

// OUTPUT: error: option loss: the model has no output 'z', expected one of 'y'
// SCALAR: error: option loss: output 'y' is f32 4x6, expected one number, or a loss such as cross_entropy(y,labels)
// TARGET: error: option loss: target 'x' is f32 4x5, expected f32 4x6
// NOMATCH: error: option frozen: no parameter matches 'u.*'
// NOTHING: error: nothing to train: the loss depends on no float parameter that option trainable and option frozen leave
// REGEX: error: option trainable: '(': parentheses not balanced
// Both are named.
// MISSING: error: second: 'nn.scatter_add' has no gradient; first: 'nn.scatter_add' has no gradient
// MISSING: note: parameters before these ops can stay as they are: option frozen=REGEX

//--- model.mlir
func.func @main(%x: tensor<4x5xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<4x6xf32> {kerf.name = "y"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<5x6xf32>
  %y = nn.matmul %x, %w : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

//--- missing.mlir
func.func @main(%x: tensor<4x6xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<4x6xf32> {kerf.name = "y"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<6x6xf32>
  %h = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %i = nn.iota dim 0 : tensor<4xi64>
  %a = nn.scatter_add %i, %h dim 0 : (tensor<4xi64>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("first")
  %y = nn.scatter_add %i, %a dim 0 : (tensor<4xi64>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("second")
  return %y : tensor<4x6xf32>
}
