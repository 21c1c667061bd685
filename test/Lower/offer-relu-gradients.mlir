// The gradient of ReLU behind a product: on GPUs the product is offered to do it.
// RUN: kerf-opt %s --split-input-file --prepare --form-groups --bufferize | FileCheck %s
// REQUIRES: kerf-opt

// The kernel works in place over the product's result, whoever does it.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}}then [relu]
// CHECK: exec.matmul 1 {{.*}}dst(%[[G:[^ ]*]] : {{.*}}relu_gradient <forward = 0, kernel = 0>
// CHECK: exec.launch @less_equal_select_0({{.*}}, %[[G]]) -> (%[[G]])
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>) -> (tensor<6x16xf32>, tensor<8x16xf32>) {
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
  func.func @main(%x: tensor<2x3x8xbf16>, %w: tensor<8x16xbf16>, %dy: tensor<6x4xbf16>, %v: tensor<4x16xbf16>, %u: tensor<16x16xbf16>) -> tensor<6x16xbf16> {
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

// -----

// Somebody else reads the gradient before.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: relu_gradient
// CHECK: exec.return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %z = nn.constant dense<0.0> : tensor<f32>
    %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %y = nn.relu %p : tensor<6x16xf32>
    %c = nn.less_equal %y, %z : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %g = nn.matmul %dy, %v : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
    %s = nn.select %c, %z, %g : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    %a = nn.matmul %x, %g {transpose_lhs} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    %b = nn.matmul %x, %s {transpose_lhs} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    return %a, %b : tensor<8x16xf32>, tensor<8x16xf32>
  }
}

// -----

// What comes out lies where the caller wants it.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: relu_gradient
// CHECK: exec.launch @less_equal_select_0(%{{.*}}, %{{.*}}) -> (%arg4)
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>) -> tensor<6x16xf32> {
    %z = nn.constant dense<0.0> : tensor<f32>
    %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %y = nn.relu %p : tensor<6x16xf32>
    %c = nn.less_equal %y, %z : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %g = nn.matmul %dy, %v : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
    %s = nn.select %c, %z, %g : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    return %s : tensor<6x16xf32>
  }
}

// -----

// Another bound, no activation, and the gradient kept where it should go.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: relu_gradient
// CHECK: exec.return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
    %z = nn.constant dense<0.0> : tensor<f32>
    %i = nn.constant dense<1.0> : tensor<f32>
    %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %y = nn.relu %p : tensor<6x16xf32>
    %g = nn.matmul %dy, %v : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
    %c = nn.less_equal %y, %i : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %s = nn.select %c, %z, %g : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    %dw = nn.matmul %x, %s {transpose_lhs} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    %w2 = nn.add %w, %w : tensor<8x16xf32>
    %p2 = nn.matmul %x, %w2 : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %v2 = nn.add %v, %v : tensor<4x16xf32>
    %g2 = nn.matmul %dy, %v2 : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
    %c2 = nn.less_equal %p2, %z : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %s2 = nn.select %c2, %z, %g2 : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    %dw2 = nn.matmul %x, %s2 {transpose_lhs} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    %c3 = nn.less_equal %y, %z : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
    %v3 = nn.mul %v, %v : tensor<4x16xf32>
    %g3 = nn.matmul %dy, %v3 : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
    %s3 = nn.select %c3, %g3, %z : (tensor<6x16xi1>, tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xf32>
    %dw3 = nn.matmul %x, %s3 {transpose_lhs} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    return %dw, %dw2, %dw3 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  }
}
