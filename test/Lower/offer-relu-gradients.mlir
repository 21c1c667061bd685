// The gradient of ReLU behind a product: on GPUs the product is offered to do it.
// RUN: kerf-opt %s --split-input-file --kerf-offer-relu-gradients | FileCheck %s
// REQUIRES: kerf-opt

// The kernel works in place over the product's result, whoever does it.
// CHECK-LABEL: func.func @layer(
// CHECK: %[[Y:.*]] = exec.matmul 0 {{.*}}then [relu]
// CHECK: %[[G:.*]] = exec.matmul 1 {{.*}} relu_gradient <forward = 0, kernel = 5> : tensor<6x16xf32>
// CHECK-NOT: exec.empty
// CHECK: exec.group 5 "" (%{{.*}} = %[[Y]] : {{.*}} = %[[G]] : {{.*}} into(%[[G]] : tensor<6x16xf32>)
module attributes {exec.target = #exec.target<cuda>} {
  func.func @layer(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> (tensor<6x16xf32>, tensor<8x16xf32>) {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 5 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %dw = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    return %y, %dw : tensor<6x16xf32>, tensor<8x16xf32>
  }
}

// -----

// In 16 bits, which the kernel widens; the products have other shapes.
// CHECK-LABEL: func.func @narrow(
// CHECK: %[[G:.*]] = exec.matmul 1 {{.*}} relu_gradient <forward = 0, kernel = 0> : tensor<6x16xbf16>
// CHECK: exec.group 0 {{.*}} into(%[[G]] : tensor<6x16xbf16>)
module attributes {exec.target = #exec.target<cuda>} {
  func.func @narrow(%x: tensor<2x3x8xbf16>, %w: tensor<8x16xbf16>, %dy: tensor<6x4xbf16>, %v: tensor<4x16xbf16>,
      %u: tensor<16x16xbf16>) -> tensor<6x16xbf16> {
    %e = exec.empty : tensor<2x3x16xbf16>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<2x3x8xbf16>) rhs(%w : tensor<8x16xbf16>)
        dst(%e : tensor<2x3x16xbf16>) then [relu] : tensor<2x3x16xbf16>
    %f = exec.empty : tensor<6x16xbf16>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xbf16>) rhs(%v : tensor<4x16xbf16>)
        dst(%f : tensor<6x16xbf16>) : tensor<6x16xbf16>
    %h = exec.empty : tensor<6x16xbf16>
    %s = exec.group 0 "" (%a = %y : tensor<2x3x16xbf16>, %b = %g : tensor<6x16xbf16>) into(%h : tensor<6x16xbf16>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %0 = nn.reshape %a : (tensor<2x3x16xbf16>) -> tensor<6x16xbf16>
      %1 = nn.cast %0 : (tensor<6x16xbf16>) -> tensor<6x16xf32>
      %c = nn.less_equal %1, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %2 = nn.cast %b : (tensor<6x16xbf16>) -> tensor<6x16xf32>
      %3 = nn.select %c, %zero, %2 : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      %r = nn.cast %3 : (tensor<6x16xf32>) -> tensor<6x16xbf16>
      exec.yield %r : tensor<6x16xbf16>
    }
    %i = exec.empty : tensor<6x16xbf16>
    %d = exec.matmul 2 "" m 6 n 16 k 16 lhs(%s : tensor<6x16xbf16>) rhs(%u : tensor<16x16xbf16>)
        dst(%i : tensor<6x16xbf16>) : tensor<6x16xbf16>
    return %d : tensor<6x16xbf16>
  }
}

// -----

// Somebody else reads the gradient before.
// CHECK-LABEL: func.func @two_readers(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @two_readers(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %a = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%g : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    %j = exec.empty : tensor<8x16xf32>
    %b = exec.matmul 3 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%j : tensor<8x16xf32>) : tensor<8x16xf32>
    return %a, %b : tensor<8x16xf32>, tensor<8x16xf32>
  }
}

// -----

// What comes out lies where the caller wants it.
// CHECK-LABEL: func.func @returned(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @returned(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> tensor<6x16xf32> {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    return %s : tensor<6x16xf32>
  }
}

// -----

// Another bound.
// CHECK-LABEL: func.func @other_bound(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @other_bound(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> tensor<8x16xf32> {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %bound = nn.constant dense<1.0> : tensor<f32>
      %c = nn.less_equal %a, %bound : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %dw = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    return %dw : tensor<8x16xf32>
  }
}

// -----

// No activation in the forward pass.
// CHECK-LABEL: func.func @no_activation(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @no_activation(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> tensor<8x16xf32> {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %dw = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    return %dw : tensor<8x16xf32>
  }
}

// -----

// The gradient is kept where it should go.
// CHECK-LABEL: func.func @kept_elsewhere(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @kept_elsewhere(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> tensor<8x16xf32> {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %b, %zero : (tensor<6x16xi1>, tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %dw = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    return %dw : tensor<8x16xf32>
  }
}

// -----

// The product does something else already.
// CHECK-LABEL: func.func @taken_in(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cuda>} {
  func.func @taken_in(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> tensor<8x16xf32> {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) then [tanh] : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %dw = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    return %dw : tensor<8x16xf32>
  }
}

// -----

// The CPU's library has nothing of the kind.
// CHECK-LABEL: func.func @cpu(
// CHECK-NOT: relu_gradient
// CHECK: return
module attributes {exec.target = #exec.target<cpu>} {
  func.func @cpu(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>, %dy: tensor<6x4xf32>, %v: tensor<4x16xf32>)
      -> tensor<8x16xf32> {
    %e = exec.empty : tensor<6x16xf32>
    %y = exec.matmul 0 "" m 6 n 16 k 8 lhs(%x : tensor<6x8xf32>) rhs(%w : tensor<8x16xf32>)
        dst(%e : tensor<6x16xf32>) then [relu] : tensor<6x16xf32>
    %f = exec.empty : tensor<6x16xf32>
    %g = exec.matmul 1 "" m 6 n 16 k 4 lhs(%dy : tensor<6x4xf32>) rhs(%v : tensor<4x16xf32>)
        dst(%f : tensor<6x16xf32>) : tensor<6x16xf32>
    %h = exec.empty : tensor<6x16xf32>
    %s = exec.group 0 "" (%a = %y : tensor<6x16xf32>, %b = %g : tensor<6x16xf32>) into(%h : tensor<6x16xf32>) {
      %zero = nn.constant dense<0.0> : tensor<f32>
      %c = nn.less_equal %a, %zero : (tensor<6x16xf32>, tensor<f32>) -> tensor<6x16xi1>
      %r = nn.select %c, %zero, %b : (tensor<6x16xi1>, tensor<f32>, tensor<6x16xf32>) -> tensor<6x16xf32>
      exec.yield %r : tensor<6x16xf32>
    }
    %i = exec.empty : tensor<8x16xf32>
    %dw = exec.matmul 2 "" m 8 n 16 k 6 lhs(%x : tensor<6x8xf32> strides [1, 8]) rhs(%s : tensor<6x16xf32>)
        dst(%i : tensor<8x16xf32>) : tensor<8x16xf32>
    return %dw : tensor<8x16xf32>
  }
}
