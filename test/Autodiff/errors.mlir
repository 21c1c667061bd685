// RUN: split-file %s %t
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(z,t)' 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=y' 2>&1 | FileCheck %s --check-prefix=SCALAR
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,x)' 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,t) frozen=w,u.*' 2>&1 | FileCheck %s --check-prefix=NOMATCH
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,t) frozen=w' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not kerf-opt %t/model.mlir '--kerf-autodiff=loss=mse(y,t) trainable=(' 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not kerf-opt %t/missing.mlir '--kerf-autodiff=loss=mse(y,t)' 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not kerf-opt %t/foreign.mlir '--kerf-autodiff=loss=mse(y,t)' 2>&1 | FileCheck %s --check-prefix=FOREIGN
// RUN: not kerf-opt %t/unnamed.mlir '--kerf-autodiff=loss=mse(y,t)' 2>&1 | FileCheck %s --check-prefix=UNNAMED
// RUN: not kerf-opt %t/blocks.mlir '--kerf-autodiff=loss=mse(y,t)' 2>&1 | FileCheck %s --check-prefix=BLOCKS
// REQUIRES: kerf-opt

// OUTPUT: error: option loss: the model has no output 'z', expected one of 'y'
// SCALAR: error: option loss: output 'y' is f32 4x6, expected one number, or a loss such as cross_entropy(y,labels)
// TARGET: error: option loss: target 'x' is f32 4x5, expected f32 4x6
// NOMATCH: error: option frozen: no parameter matches 'u.*'
// NOTHING: error: nothing to train: the loss depends on no float parameter that option trainable and option frozen leave
// REGEX: error: option trainable: '(' is no regular expression: parentheses not balanced
// Both are named, where they are.
// MISSING: error: {{.*}}second: 'nn.scatter_add' has no gradient
// MISSING: error: {{.*}}first: 'nn.scatter_add' has no gradient
// MISSING: note: {{.*}}parameters before these ops can stay as they are: option frozen=REGEX
// An op of another dialect is found by its place; the module is not printed with it.
// FOREIGN: foreign.mlir:4:8: error: 'arith.negf' has no gradient
// FOREIGN: foreign.mlir:3:8: error: 'linalg.transpose' has no gradient
// FOREIGN-NOT: current operation
// UNNAMED: error: option loss: the model has no output 'y', expected one of 'result0', 'arg0'
// BLOCKS: blocks.mlir:1:1: error: @f has several blocks, expected one: run kerf-flatten

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

//--- foreign.mlir
func.func @f(%x: tensor<4x6xf32> {kerf.name = "x"}, %e: tensor<6x4xf32> {kerf.name = "e"}) -> (tensor<6x4xf32> {kerf.name = "y"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<4x6xf32>
  %h = linalg.transpose ins(%w : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) permutation = [1, 0]
  %y = arith.negf %h : tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

//--- unnamed.mlir
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {kerf.name = "arg0"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

//--- blocks.mlir
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {kerf.name = "y"}) {
  cf.br ^a
^a:
  return %x : tensor<4xf32>
}
