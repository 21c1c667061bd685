// Sums of what a product reads anyway: on GPUs it is offered to write them, too.
// RUN: kerf-opt %s --split-input-file --kerf-offer-bias-gradients | FileCheck %s
// REQUIRES: kerf-opt

// The gradients of weights and bias of one layer: x^T dy and the sums of dy. The
// memory is the kernel's, which stays; it moves in front of the product.
// CHECK-LABEL: func.func @layer(
// CHECK: %[[S:.*]] = exec.empty : tensor<16xf32>
// CHECK: exec.matmul 0 {{.*}}sums(%[[S]] : tensor<16xf32>) <of = rhs, rows = 1, kernel = 3> : tensor<8x16xf32>
// CHECK: exec.group 3 {{.*}} into(%[[S]] : tensor<16xf32>)
module attributes {exec.target = #exec.target<cuda>} {
  func.func @layer(%x: tensor<64x8xf32>, %dy: tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
    %e = exec.empty : tensor<8x16xf32>
    %w = exec.matmul 0 "" m 8 n 16 k 64 lhs(%x : tensor<64x8xf32> strides [1, 8]) rhs(%dy : tensor<64x16xf32>)
        dst(%e : tensor<8x16xf32>) : tensor<8x16xf32>
    %f = exec.empty : tensor<16xf32>
    %b = exec.group 3 "" (%a = %dy : tensor<64x16xf32>) into(%f : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    return %w, %b : tensor<8x16xf32>, tensor<16xf32>
  }
}

// -----

// The gradient of weights that lie transposed is dy^T x; the kernel reads dy
// before it was rounded, in another shape.
// CHECK-LABEL: func.func @rounded(
// CHECK: %[[S:.*]] = exec.empty : tensor<16xf32>
// CHECK: exec.matmul 0 {{.*}}sums(%[[S]] : tensor<16xf32>) <of = lhs, rows = 1, kernel = 0> : tensor<16x8xf32>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @rounded(%x: tensor<64x8xbf16>, %dy: tensor<4x16x16xf32>) -> (tensor<16x8xf32>, tensor<16xf32>) {
    %e = exec.empty : tensor<16xf32>
    %b = exec.group 0 "" (%a = %dy : tensor<4x16x16xf32>) into(%e : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [0, 1] : (tensor<4x16x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %f = exec.empty : tensor<4x16x16xbf16>
    %n = exec.group 1 "" (%a = %dy : tensor<4x16x16xf32>) into(%f : tensor<4x16x16xbf16>) {
      %r = nn.cast %a : (tensor<4x16x16xf32>) -> tensor<4x16x16xbf16>
      exec.yield %r : tensor<4x16x16xbf16>
    }
    %g = exec.empty : tensor<16x8xf32>
    %w = exec.matmul 0 "" m 16 n 8 k 64 lhs(%n : tensor<4x16x16xbf16> strides [1, 16]) rhs(%x : tensor<64x8xbf16>)
        dst(%g : tensor<16x8xf32>) : tensor<16x8xf32>
    return %w, %b : tensor<16x8xf32>, tensor<16xf32>
  }
}

// -----

// A long sum is one of parts, of which the first may have all.
// CHECK-LABEL: func.func @parts(
// CHECK: %[[P:.*]] = exec.empty : tensor<4x16xf32>
// CHECK: exec.group 0 {{.*}} into(%[[P]] : tensor<4x16xf32>)
// CHECK: exec.matmul 0 {{.*}}sums(%[[P]] : tensor<4x16xf32>) <of = rhs, rows = 4, kernel = 0>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @parts(%x: tensor<64x8xf32>, %dy: tensor<64x16xf32>) -> (tensor<16xf32>, tensor<8x16xf32>) {
    %e = exec.empty : tensor<4x16xf32>
    %p = exec.group 0 "" (%a = %dy : tensor<64x16xf32>) into(%e : tensor<4x16xf32>) {
      %p = nn.reshape %a : (tensor<64x16xf32>) -> tensor<4x16x16xf32>
      %r = nn.reduce sum %p dims [1] : (tensor<4x16x16xf32>) -> tensor<4x16xf32>
      exec.yield %r : tensor<4x16xf32>
    }
    %f = exec.empty : tensor<16xf32>
    %b = exec.group 1 "" (%a = %p : tensor<4x16xf32>) into(%f : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [0] : (tensor<4x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %g = exec.empty : tensor<8x16xf32>
    %w = exec.matmul 0 "" m 8 n 16 k 64 lhs(%x : tensor<64x8xf32> strides [1, 8]) rhs(%dy : tensor<64x16xf32>)
        dst(%g : tensor<8x16xf32>) : tensor<8x16xf32>
    return %b, %w : tensor<16xf32>, tensor<8x16xf32>
  }
}

// -----

// Parts that somebody looks at are not those of one sum.
// CHECK-LABEL: func.func @parts_returned(
// CHECK-NOT: sums(
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @parts_returned(%x: tensor<64x8xf32>, %dy: tensor<64x16xf32>) -> (tensor<4x16xf32>, tensor<8x16xf32>) {
    %e = exec.empty : tensor<4x16xf32>
    %p = exec.group 0 "" (%a = %dy : tensor<64x16xf32>) into(%e : tensor<4x16xf32>) {
      %p = nn.reshape %a : (tensor<64x16xf32>) -> tensor<4x16x16xf32>
      %r = nn.reduce sum %p dims [1] : (tensor<4x16x16xf32>) -> tensor<4x16xf32>
      exec.yield %r : tensor<4x16xf32>
    }
    %g = exec.empty : tensor<8x16xf32>
    %w = exec.matmul 0 "" m 8 n 16 k 64 lhs(%x : tensor<64x8xf32> strides [1, 8]) rhs(%dy : tensor<64x16xf32>)
        dst(%g : tensor<8x16xf32>) : tensor<8x16xf32>
    return %p, %w : tensor<4x16xf32>, tensor<8x16xf32>
  }
}

// -----

// A kernel that does more, sums over columns, the largest of each column, sums of
// another tensor: none of these.
// CHECK-LABEL: func.func @other_kernels(
// CHECK-NOT: sums(
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @other_kernels(%x: tensor<16x16xf32>, %dy: tensor<16x16xf32>)
      -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>) {
    %e = exec.empty : tensor<16xf32>
    %k0 = exec.group 0 "" (%a = %dy : tensor<16x16xf32>) into(%e : tensor<16xf32>) {
      %0 = nn.exp %a : tensor<16x16xf32>
      %r = nn.reduce sum %0 dims [0] : (tensor<16x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %f = exec.empty : tensor<16xf32>
    %k1 = exec.group 1 "" (%a = %dy : tensor<16x16xf32>) into(%f : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [1] : (tensor<16x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %g = exec.empty : tensor<16xf32>
    %k2 = exec.group 2 "" (%a = %dy : tensor<16x16xf32>) into(%g : tensor<16xf32>) {
      %r = nn.reduce max %a dims [0] : (tensor<16x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %h = exec.empty : tensor<16xf32>
    %k3 = exec.group 3 "" (%a = %x : tensor<16x16xf32>) into(%h : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [1] : (tensor<16x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %i = exec.empty : tensor<16x16xf32>
    %w = exec.matmul 0 "" m 16 n 16 k 16 lhs(%x : tensor<16x16xf32> strides [1, 16]) rhs(%dy : tensor<16x16xf32>)
        dst(%i : tensor<16x16xf32>) : tensor<16x16xf32>
    return %k0, %k1, %k2, %k3, %w : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>
  }
}

// -----

// The product reads what is made of the sums: it cannot write them.
// CHECK-LABEL: func.func @cycle(
// CHECK-NOT: sums(
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @cycle(%x: tensor<16x16xf32>, %dy: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %e = exec.empty : tensor<16xf32>
    %b = exec.group 0 "" (%a = %dy : tensor<16x16xf32>) into(%e : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [0] : (tensor<16x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %f = exec.empty : tensor<16x16xf32>
    %y = exec.group 1 "" (%a = %x : tensor<16x16xf32>, %c = %b : tensor<16xf32>) into(%f : tensor<16x16xf32>) {
      %r = nn.add %a, %c : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
      exec.yield %r : tensor<16x16xf32>
    }
    %g = exec.empty : tensor<16x16xf32>
    %w = exec.matmul 0 "" m 16 n 16 k 16 lhs(%y : tensor<16x16xf32> strides [1, 16]) rhs(%dy : tensor<16x16xf32>)
        dst(%g : tensor<16x16xf32>) : tensor<16x16xf32>
    return %w : tensor<16x16xf32>
  }
}

// -----

// Products with an activation, of a batch, of another type than the sums, and of
// float16.
// CHECK-LABEL: func.func @other_products(
// CHECK-NOT: sums(
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @other_products(%dy: tensor<64x16xf32>, %v: tensor<2x64x16xf32>, %n: tensor<64x16xbf16>,
      %h: tensor<64x16xf16>)
      -> (tensor<16xf32>, tensor<16x16xf32>, tensor<2x16xf32>, tensor<2x16x16xf32>, tensor<16xf32>, tensor<16x16xbf16>, tensor<16xf16>, tensor<16x16xf16>) {
    %e0 = exec.empty : tensor<16xf32>
    %b0 = exec.group 0 "" (%a = %dy : tensor<64x16xf32>) into(%e0 : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %f0 = exec.empty : tensor<16x16xf32>
    %w0 = exec.matmul 0 "" m 16 n 16 k 64 lhs(%dy : tensor<64x16xf32> strides [1, 16]) rhs(%dy : tensor<64x16xf32>)
        dst(%f0 : tensor<16x16xf32>) then [relu] : tensor<16x16xf32>
    %e1 = exec.empty : tensor<2x16xf32>
    %b1 = exec.group 1 "" (%a = %v : tensor<2x64x16xf32>) into(%e1 : tensor<2x16xf32>) {
      %r = nn.reduce sum %a dims [1] : (tensor<2x64x16xf32>) -> tensor<2x16xf32>
      exec.yield %r : tensor<2x16xf32>
    }
    %f1 = exec.empty : tensor<2x16x16xf32>
    %w1 = exec.matmul 1 "" batch [2] m 16 n 16 k 64 lhs(%v : tensor<2x64x16xf32> strides [1024, 1, 16]) rhs(%v : tensor<2x64x16xf32>)
        dst(%f1 : tensor<2x16x16xf32>) : tensor<2x16x16xf32>
    %e2 = exec.empty : tensor<16xf32>
    %b2 = exec.group 2 "" (%a = %n : tensor<64x16xbf16>) into(%e2 : tensor<16xf32>) {
      %0 = nn.cast %a : (tensor<64x16xbf16>) -> tensor<64x16xf32>
      %r = nn.reduce sum %0 dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    %f2 = exec.empty : tensor<16x16xbf16>
    %w2 = exec.matmul 2 "" m 16 n 16 k 64 lhs(%n : tensor<64x16xbf16> strides [1, 16]) rhs(%n : tensor<64x16xbf16>)
        dst(%f2 : tensor<16x16xbf16>) : tensor<16x16xbf16>
    %e3 = exec.empty : tensor<16xf16>
    %b3 = exec.group 3 "" (%a = %h : tensor<64x16xf16>) into(%e3 : tensor<16xf16>) {
      %r = nn.reduce sum %a dims [0] : (tensor<64x16xf16>) -> tensor<16xf16>
      exec.yield %r : tensor<16xf16>
    }
    %f3 = exec.empty : tensor<16x16xf16>
    %w3 = exec.matmul 3 "" m 16 n 16 k 64 lhs(%h : tensor<64x16xf16> strides [1, 16]) rhs(%h : tensor<64x16xf16>)
        dst(%f3 : tensor<16x16xf16>) : tensor<16x16xf16>
    return %b0, %w0, %b1, %w1, %b2, %w2, %b3, %w3 :
        tensor<16xf32>, tensor<16x16xf32>, tensor<2x16xf32>, tensor<2x16x16xf32>, tensor<16xf32>, tensor<16x16xbf16>, tensor<16xf16>, tensor<16x16xf16>
  }
}

// -----

// The CPU's library has nothing of the kind.
// CHECK-LABEL: func.func @cpu(
// CHECK-NOT: sums(
// CHECK: return
module attributes {exec.target = #exec.target<cpu>} {
  func.func @cpu(%x: tensor<64x8xf32>, %dy: tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
    %e = exec.empty : tensor<8x16xf32>
    %w = exec.matmul 0 "" m 8 n 16 k 64 lhs(%x : tensor<64x8xf32> strides [1, 8]) rhs(%dy : tensor<64x16xf32>)
        dst(%e : tensor<8x16xf32>) : tensor<8x16xf32>
    %f = exec.empty : tensor<16xf32>
    %b = exec.group 0 "" (%a = %dy : tensor<64x16xf32>) into(%f : tensor<16xf32>) {
      %r = nn.reduce sum %a dims [0] : (tensor<64x16xf32>) -> tensor<16xf32>
      exec.yield %r : tensor<16xf32>
    }
    return %w, %b : tensor<8x16xf32>, tensor<16xf32>
  }
}
