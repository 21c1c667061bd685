// The ops that only training has: printed as they are read, and what they refuse.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -split-input-file -verify-diagnostics -verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @conv
func.func @conv(%x: tensor<1x8x8x3xf32>, %w: tensor<4x3x3x3xf32>, %dy: tensor<1x4x4x4xf32>) {
  // CHECK: nn.conv_input_gradient %{{.*}}, %{{.*}} kernel 3x3 strides 2x2 pad 1x1 : tensor<1x4x4x4xf32> -> tensor<1x8x8x3xf32>
  %0 = nn.conv_input_gradient %dy, %w kernel 3x3 strides 2x2 pad 1x1 : tensor<1x4x4x4xf32> -> tensor<1x8x8x3xf32>
  // CHECK: nn.conv_weight_gradient %{{.*}}, %{{.*}} kernel 3x3 strides 2x2 pad 1x1 : tensor<1x8x8x3xf32>, tensor<1x4x4x4xf32>
  %1 = nn.conv_weight_gradient %x, %dy kernel 3x3 strides 2x2 pad 1x1 : tensor<1x8x8x3xf32>, tensor<1x4x4x4xf32>
  return
}

// CHECK-LABEL: func.func @pool
func.func @pool(%x: tensor<1x8x3xf32>, %dy: tensor<1x4x3xf32>) {
  // CHECK: nn.max_pool_gradient %{{.*}}, %{{.*}} kernel 2 strides 2 : (tensor<1x8x3xf32>, tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
  %0 = nn.max_pool_gradient %x, %dy kernel 2 strides 2 : (tensor<1x8x3xf32>, tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
  // CHECK: nn.avg_pool_gradient %{{.*}} kernel {{.*}} {count_include_pad} : (tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
  %1 = nn.avg_pool_gradient %dy kernel 2 strides 2 {count_include_pad} : (tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
  return
}

// CHECK-LABEL: func.func @rows
func.func @rows(%ids: tensor<2x3xi64>, %dy: tensor<5x2x3x4xf32>, %s: tensor<i64>) {
  // CHECK: nn.scatter_add %{{.*}}, %{{.*}} dim 1 : (tensor<2x3xi64>, tensor<5x2x3x4xf32>) -> tensor<5x10x4xf32>
  %0 = nn.scatter_add %ids, %dy dim 1 : (tensor<2x3xi64>, tensor<5x2x3x4xf32>) -> tensor<5x10x4xf32>
  // CHECK: nn.scatter_add %{{.*}}, %{{.*}} dim 1 {partial}
  %1 = nn.scatter_add %ids, %dy dim 1 {partial} : (tensor<2x3xi64>, tensor<5x2x3x4xf32>) -> tensor<5x10x4xf32>
  // CHECK: nn.philox %{{.*}}, %{{.*}}, %{{.*}} {stream = 4294967295 : i64} : (tensor<2x3xi64>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
  %2 = nn.philox %ids, %s, %s {stream = 4294967295 : i64} : (tensor<2x3xi64>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
  return
}

// -----

func.func @conv_input_gradient_c1(%w: tensor<4x3x3x3xf32>, %dy: tensor<1x4x5x4xf32>) {
  // expected-error@+1 {{gradient is 'tensor<1x4x5x4xf32>', expected 'tensor<1x4x4x4xf32>'}}
  %0 = nn.conv_input_gradient %dy, %w kernel 3x3 strides 2x2 pad 1x1 : tensor<1x4x5x4xf32> -> tensor<1x8x8x3xf32>
  return
}

// -----

func.func @conv_weight_gradient_c1(%x: tensor<1x8x8x3xf32>, %dy: tensor<1x4x4x4xf32>) {
  // expected-error@+1 {{do not fit 3 groups}}
  %0 = nn.conv_weight_gradient %x, %dy kernel 3x3 strides 2x2 pad 1x1 groups 3
     : tensor<1x8x8x3xf32>, tensor<1x4x4x4xf32>
  return
}

// -----

func.func @max_pool_gradient_c1(%x: tensor<1x8x3xf32>, %dy: tensor<1x5x3xf32>) {
  // expected-error@+2 {{gradient is 'tensor<1x5x3xf32>', expected 'tensor<1x4x3xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.max_pool_gradient %x, %dy kernel 2 strides 2 : (tensor<1x8x3xf32>, tensor<1x5x3xf32>) -> tensor<1x8x3xf32>
  return
}

// -----

func.func @avg_pool_gradient_c1(%dy: tensor<1x5x3xf32>) {
  // expected-error@+1 {{gradient is 'tensor<1x5x3xf32>', expected 'tensor<1x4x3xf32>'}}
  %0 = nn.avg_pool_gradient %dy kernel 2 strides 2 : (tensor<1x5x3xf32>) -> tensor<1x8x3xf32>
  return
}

// -----

func.func @scatter_add_c1(%ids: tensor<2x3xi64>, %dy: tensor<2x3x5xf32>) {
  // expected-error@+1 {{gradient is 'tensor<2x3x5xf32>', expected 'tensor<2x3x4xf32>'}}
  %0 = nn.scatter_add %ids, %dy dim 0 : (tensor<2x3xi64>, tensor<2x3x5xf32>) -> tensor<10x4xf32>
  return
}

// -----

func.func @philox_c1_stream(%i: tensor<2xi64>, %s: tensor<i64>) {
  // expected-error@+2 {{stream is 4294967296, expected less than 2^32}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.philox %i, %s, %s {stream = 4294967296 : i64} : (tensor<2xi64>, tensor<i64>, tensor<i64>) -> tensor<2xf32>
  return
}

// -----

func.func @philox_c1_seed(%i: tensor<2xi64>, %s: tensor<i64>) {
  // expected-error@+2 {{seed and step are 'tensor<2xi64>' and 'tensor<i64>', expected scalars}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = nn.philox %i, %i, %s {stream = 0 : i64} : (tensor<2xi64>, tensor<2xi64>, tensor<i64>) -> tensor<2xf32>
  return
}
