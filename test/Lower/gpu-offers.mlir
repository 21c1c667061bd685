// The gradients of a layer on GPUs, from tensor ops to buffers: what products could do besides is offered to them where
// what stands before the offers (prepare, kerf-form-groups) makes a kernel of it.
// RUN: kerf-opt %s --split-input-file --kerf-prepare --kerf-form-groups --kerf-bufferize | FileCheck %s
// REQUIRES: kerf-opt

// The gradients of weights and bias of one layer: x^T dy and the sums of dy. The
// buffer is the kernel's, which stays.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}}sums(%[[SUMS:[^ ]*]] : {{.*}}) <of = rhs, rows = 1, kernel = 0>
// CHECK: exec.launch @reduce_0({{.*}}) -> (%[[SUMS]])
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<64x8xf32>, %dy: tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
    %w = nn.matmul %x, %dy {transpose_lhs} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %b = nn.reduce sum %dy dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
    return %w, %b : tensor<8x16xf32>, tensor<16xf32>
  }
}

// -----

// The gradient of weights that lie transposed is dy^T x; the kernel reads dy
// before it was rounded, in another shape.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.launch @reduce_[[K:[0-9]+]](
// CHECK: exec.matmul 0 {{.*}}sums({{.*}}) <of = lhs, rows = 1, kernel = [[K]]>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<64x8xbf16>, %dy: tensor<4x16x16xf32>) -> (tensor<16x8xf32>, tensor<16xf32>) {
    %b = nn.reduce sum %dy dims [0, 1] : (tensor<4x16x16xf32>) -> tensor<16xf32>
    %n = nn.cast %dy : (tensor<4x16x16xf32>) -> tensor<4x16x16xbf16>
    %r = nn.reshape %n : (tensor<4x16x16xbf16>) -> tensor<64x16xbf16>
    %w = nn.matmul %r, %x {transpose_lhs} : (tensor<64x16xbf16>, tensor<64x8xbf16>) -> tensor<16x8xbf16>
    %f = nn.cast %w : (tensor<16x8xbf16>) -> tensor<16x8xf32>
    return %f, %b : tensor<16x8xf32>, tensor<16xf32>
  }
}

// -----

// A long sum is one of parts, of which the first may have all. What reads them
// waits for the product.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.launch @reduce_0({{.*}}) -> (%[[PARTS:.*]]) : (memref<4096x32xf32>) -> memref<128x32xf32>
// CHECK-NOT: exec.launch
// CHECK: exec.matmul 0 {{.*}}sums(%[[PARTS]] : {{.*}}) <of = rhs, rows = 128, kernel = 0>
// CHECK: exec.launch @reduce_1(%[[PARTS]])
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<4096x8xf32>, %dy: tensor<4096x32xf32>) -> (tensor<32xf32>, tensor<8x32xf32>) {
    %b = nn.reduce sum %dy dims [0] : (tensor<4096x32xf32>) -> tensor<32xf32>
    %e = nn.exp %b : tensor<32xf32>
    %w = nn.matmul %x, %dy {transpose_lhs} : (tensor<4096x8xf32>, tensor<4096x32xf32>) -> tensor<8x32xf32>
    return %e, %w : tensor<32xf32>, tensor<8x32xf32>
  }
}

// -----

// The kernel works in place over the product's result, whoever does it.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}}then [relu]
// CHECK: exec.matmul 1 {{.*}}dst(%[[G:[^ ]*]] : {{.*}}relu_gradient <forward = 0, kernel = 0>
// CHECK: exec.launch @less_equal_select_0({{.*}}, %[[G]]) -> (%[[G]])
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> (tensor<6x16xf32>, tensor<8x16xf32>) {
    %z = nn.constant dense<0.0> : tensor<f32>
    %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %q = nn.add %p, %b : (tensor<6x16xf32>, tensor<16xf32>) -> tensor<6x16xf32>
    %y = nn.relu %q : tensor<6x16xf32>
    %g = nn.matmul %dy, %v : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
    %c = nn.less_equal %y, %z : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %s = nn.select %c, %z, %g : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    %dw = nn.matmul %x, %s {transpose_lhs} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    return %y, %dw : tensor<6x16xf32>, tensor<8x16xf32>
  }
}

// -----

// In 16 bits, which the kernel widens; the products have other shapes.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 1 {{.*}}relu_gradient <forward = 0, kernel = 0>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<2x3x8xbf16>, %w: tensor<8x16xbf16>, %dy: tensor<6x4xbf16>, %v: tensor<4x16xbf16>, %u: tensor<16x16xbf16>)
      -> tensor<6x16xbf16> {
    %z = nn.constant dense<0.0> : tensor<f32>
    %p = nn.matmul %x, %w : (tensor<2x3x8xbf16>, tensor<8x16xbf16>) -> tensor<2x3x16xbf16>
    %y = nn.relu %p : tensor<2x3x16xbf16>
    %r = nn.reshape %y : (tensor<2x3x16xbf16>) -> tensor<6x16xbf16>
    %f = nn.cast %r : (tensor<6x16xbf16>) -> tensor<6x16xf32>
    %g = nn.matmul %dy, %v : (tensor<6x4xbf16>, tensor<4x16xbf16>) -> tensor<6x16xbf16>
    %h = nn.cast %g : (tensor<6x16xbf16>) -> tensor<6x16xf32>
    %c = nn.less_equal %f, %z : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %s = nn.select %c, %z, %h : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    %n = nn.cast %s : (tensor<6x16xf32>) -> tensor<6x16xbf16>
    %d = nn.matmul %n, %u : (tensor<6x16xbf16>, tensor<16x16xbf16>) -> tensor<6x16xbf16>
    return %d : tensor<6x16xbf16>
  }
}
