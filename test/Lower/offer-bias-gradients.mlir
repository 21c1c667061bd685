// Sums of what a product reads anyway: on GPUs it is offered to write them, too.
// RUN: kerf-opt %s --split-input-file --prepare --form-groups --bufferize | FileCheck %s
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

// Parts that somebody looks at are not those of one sum.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: sums(
// CHECK: exec.return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<64x8xf32>, %dy: tensor<4x16x16xf32>) -> (tensor<4x16xf32>, tensor<8x16xf32>) {
    %b = nn.reduce sum %dy dims [1] : (tensor<4x16x16xf32>) -> tensor<4x16xf32>
    %r = nn.reshape %dy : (tensor<4x16x16xf32>) -> tensor<64x16xf32>
    %w = nn.matmul %x, %r {transpose_lhs} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    return %b, %w : tensor<4x16xf32>, tensor<8x16xf32>
  }
}

// -----

// A kernel that does more, sums of another tensor, sums over columns, the
// largest of each column: none of these.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: sums(
// CHECK: exec.return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<16x16xf32>, %dy: tensor<16x16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>) {
    %e = nn.exp %dy : tensor<16x16xf32>
    %a = nn.reduce sum %e dims [0] : (tensor<16x16xf32>) -> tensor<16xf32>
    %b = nn.reduce sum %dy dims [1] : (tensor<16x16xf32>) -> tensor<16xf32>
    %c = nn.reduce max %dy dims [0] : (tensor<16x16xf32>) -> tensor<16xf32>
    %d = nn.reduce sum %x dims [1] : (tensor<16x16xf32>) -> tensor<16xf32>
    %w = nn.matmul %x, %dy {transpose_lhs} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %a, %b, %c, %d, %w : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>
  }
}

// -----

// The product reads what is made of the sums.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.launch @reduce_0({{.*}} -> memref<128x32xf32>
// CHECK-NOT: sums(
// CHECK: exec.return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<4096x32xf32>, %dy: tensor<4096x32xf32>) -> tensor<32x32xf32> {
    %s = nn.reduce sum %dy dims [0] : (tensor<4096x32xf32>) -> tensor<32xf32>
    %y = nn.add %x, %s : (tensor<4096x32xf32>, tensor<32xf32>) -> tensor<4096x32xf32>
    %w = nn.matmul %y, %dy {transpose_lhs} : (tensor<4096x32xf32>, tensor<4096x32xf32>) -> tensor<32x32xf32>
    return %w : tensor<32x32xf32>
  }
}

// -----

// Products of a batch, with an activation, of another type than the sums, and of
// float16.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: sums(
// CHECK: exec.return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<64x16xf32>, %dy: tensor<64x16xf32>, %u: tensor<2x64x16xf32>, %v: tensor<2x64x16xf32>, %n: tensor<64x16xbf16>, %h: tensor<64x16xf16>) -> (tensor<16xf32>, tensor<16x16xf32>, tensor<2x16xf32>, tensor<2x16x16xf32>, tensor<16xf32>, tensor<16x16xbf16>, tensor<16xf16>, tensor<16x16xf16>) {
    %s = nn.reduce sum %dy dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
    %p = nn.matmul %x, %dy {transpose_lhs} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
    %q = nn.relu %p : tensor<16x16xf32>
    %t = nn.reduce sum %v dims [1] : (tensor<2x64x16xf32>) -> tensor<2x16xf32>
    %z = nn.matmul %u, %v {transpose_lhs} : (tensor<2x64x16xf32>, tensor<2x64x16xf32>) -> tensor<2x16x16xf32>
    %m = nn.cast %n : (tensor<64x16xbf16>) -> tensor<64x16xf32>
    %a = nn.reduce sum %m dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
    %b = nn.matmul %n, %n {transpose_lhs} : (tensor<64x16xbf16>, tensor<64x16xbf16>) -> tensor<16x16xbf16>
    %c = nn.reduce sum %h dims [0] : (tensor<64x16xf16>) -> tensor<16xf16>
    %d = nn.matmul %h, %h {transpose_lhs} : (tensor<64x16xf16>, tensor<64x16xf16>) -> tensor<16x16xf16>
    return %s, %q, %t, %z, %a, %b, %c, %d : tensor<16xf32>, tensor<16x16xf32>, tensor<2x16xf32>, tensor<2x16x16xf32>, tensor<16xf32>, tensor<16x16xbf16>, tensor<16xf16>, tensor<16x16xf16>
  }
}

// -----

// The CPU's library has nothing of the kind.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: sums(
// CHECK: exec.return
module {
  func.func @main(%x: tensor<64x8xf32>, %dy: tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
    %w = nn.matmul %x, %dy {transpose_lhs} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %b = nn.reduce sum %dy dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
    return %w, %b : tensor<8x16xf32>, tensor<16xf32>
  }
}
