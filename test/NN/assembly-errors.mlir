// What is wrong with a line is said where it is read.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @kernel(%x: tensor<1x8x8x4xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{weights 'tensor<6x4x3x3xf32>' do not have the kernel that is given}}
  %0 = nn.conv %x, %w kernel 3x2 : (tensor<1x8x8x4xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @no_tensors(%x: i64, %w: i64) {
  // expected-error@+1 {{expected tensors with channels}}
  %0 = nn.conv %x, %w kernel 3x3 : i64 -> i64
  return
}

// -----

func.func @operands(%x: tensor<3xf32>) {
  // expected-error@+1 {{expected the types of 2 operands and one result}}
  %0 = nn.add %x, %x : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @scalars(%w: tensor<3xf32>) {
  // expected-error@+1 {{expected a parameter, its gradient and 3 scalars}}
  %0 = nn.adam_update %w, %w beta1 0.9 beta2 0.9 epsilon 0.1 weight_decay 0.0 : tensor<3xf32>
  return
}

// -----

func.func @kind(%x: tensor<3xf32>) {
  // expected-error@+1 {{expected string or keyword containing one of the following enum values for attribute 'kind' [sum, max, min, prod]}}
  %0 = nn.reduce mean %x dims [0] : (tensor<3xf32>) -> tensor<f32>
  return
}
