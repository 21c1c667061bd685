// RUN: kerf-opt %s --kerf-simplify-import | FileCheck %s
// REQUIRES: kerf-opt

// Between two window ops the transposes to and from channels-first cancel.
// CHECK-LABEL: @cancel
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x4x3xf32>, %[[B:.*]]: tensor<3xf32>)
func.func @cancel(%x: tensor<1x4x4x3xf32>, %b: tensor<3xf32>) -> tensor<1x4x4x3xf32> {
  // CHECK-NEXT: %[[R:.*]] = nn.relu %[[X]]
  // CHECK-NEXT: return %[[R]]
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<1x4x4x3xf32>) -> tensor<1x3x4x4xf32>
  %1 = nn.relu %0 : tensor<1x3x4x4xf32>
  %2 = nn.transpose %1 perm [0, 2, 3, 1] : (tensor<1x3x4x4xf32>) -> tensor<1x4x4x3xf32>
  return %2 : tensor<1x4x4x3xf32>
}

// A vector over channels [c, 1, 1] becomes [c] on the other side.
// CHECK-LABEL: @vector
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x5x3xf32>, %[[B:.*]]: tensor<3x1x1xf32>)
func.func @vector(%x: tensor<1x4x5x3xf32>, %b: tensor<3x1x1xf32>) -> tensor<1x4x5x3xf32> {
  // CHECK: %[[V:.*]] = nn.reshape %[[B]] : (tensor<3x1x1xf32>) -> tensor<3xf32>
  // CHECK: nn.mul %[[X]], %[[V]]
  // CHECK-NOT: nn.transpose
  // CHECK: return
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %1 = nn.mul %0, %b : (tensor<1x3x4x5xf32>, tensor<3x1x1xf32>) -> tensor<1x3x4x5xf32>
  %2 = nn.transpose %1 perm [0, 2, 3, 1] : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  return %2 : tensor<1x4x5x3xf32>
}

// Patches of a vision transformer: [n, c, h, w] -> [n, c, h w] -> [n, h w, c].
// CHECK-LABEL: @patches
// CHECK-SAME: (%[[X:.*]]: tensor<2x4x5x3xf32>)
func.func @patches(%x: tensor<2x4x5x3xf32>) -> tensor<2x20x3xf32> {
  // CHECK-NEXT: %[[R:.*]] = nn.reshape %[[X]] : (tensor<2x4x5x3xf32>) -> tensor<2x20x3xf32>
  // CHECK-NEXT: return %[[R]]
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32>
  %1 = nn.reshape %0 : (tensor<2x3x4x5xf32>) -> tensor<2x3x20xf32>
  %2 = nn.transpose %1 perm [0, 2, 1] : (tensor<2x3x20xf32>) -> tensor<2x20x3xf32>
  return %2 : tensor<2x20x3xf32>
}

// Flattening channels-first reads another order: that transpose stays.
// CHECK-LABEL: @flatten
func.func @flatten(%x: tensor<2x4x5x3xf32>) -> tensor<2x60xf32> {
  // CHECK: nn.transpose
  // CHECK: nn.reshape
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32>
  %1 = nn.reshape %0 : (tensor<2x3x4x5xf32>) -> tensor<2x60xf32>
  return %1 : tensor<2x60xf32>
}

// Dimensions of size 1 move by a reshape.
// CHECK-LABEL: @ones
func.func @ones(%x: tensor<2x1x1x3xf32>) -> tensor<2x3x1x1xf32> {
  // CHECK-NEXT: nn.reshape
  // CHECK-NEXT: return
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<2x1x1x3xf32>) -> tensor<2x3x1x1xf32>
  return %0 : tensor<2x3x1x1xf32>
}

// The keys of attention: the innermost dimension stays innermost.
// CHECK-LABEL: @keys
func.func @keys(%q: tensor<2x4x5x3xf32>, %k: tensor<2x5x4x3xf32>) -> tensor<2x4x5x5xf32> {
  // CHECK: %[[K:.*]] = nn.transpose %{{.*}} perm [0, 2, 1, 3]
  // CHECK: nn.matmul %{{.*}}, %[[K]] {transpose_rhs}
  %0 = nn.transpose %k perm [0, 2, 3, 1] : (tensor<2x5x4x3xf32>) -> tensor<2x4x3x5xf32>
  %1 = nn.matmul %q, %0 : (tensor<2x4x5x3xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x5x5xf32>
  return %1 : tensor<2x4x5x5xf32>
}

// ShuffleNet's shuffle is one transpose of two dimensions in either layout.
// CHECK-LABEL: @shuffle
func.func @shuffle(%x: tensor<1x5x5x6xf32>) -> tensor<1x5x5x6xf32> {
  // CHECK: nn.transpose %{{.*}} perm [0, 1, 2, 4, 3] : (tensor<1x5x5x2x3xf32>)
  // CHECK-NOT: nn.transpose
  // CHECK: return
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<1x5x5x6xf32>) -> tensor<1x6x5x5xf32>
  %1 = nn.reshape %0 : (tensor<1x6x5x5xf32>) -> tensor<1x2x3x5x5xf32>
  %2 = nn.transpose %1 perm [0, 2, 1, 3, 4] : (tensor<1x2x3x5x5xf32>) -> tensor<1x3x2x5x5xf32>
  %3 = nn.reshape %2 : (tensor<1x3x2x5x5xf32>) -> tensor<1x6x5x5xf32>
  %4 = nn.transpose %3 perm [0, 2, 3, 1] : (tensor<1x6x5x5xf32>) -> tensor<1x5x5x6xf32>
  return %4 : tensor<1x5x5x6xf32>
}

// A reduction over the image leaves no transpose.
// CHECK-LABEL: @pool
func.func @pool(%x: tensor<2x4x5x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: nn.reduce {{.*}} dims [1, 2]
  // CHECK-NEXT: return
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32>
  %1 = nn.reduce sum %0 dims [2, 3] : (tensor<2x3x4x5xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
