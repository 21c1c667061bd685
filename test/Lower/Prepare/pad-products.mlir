// RUN: kerf-opt %s --kerf-pad-products | FileCheck %s
// REQUIRES: kerf-opt

// Rows of 37 elements of 2 bytes begin anywhere, rows of 40 at multiples of 16 bytes: the weight gets rows of zeros, what
// follows works on wide rows, and who cannot takes a slice.
// CHECK-LABEL: func.func @main
// CHECK: %[[WEIGHT:.*]] = nn.pad %{{.*}} : (tensor<37x16xbf16>) -> tensor<40x16xbf16>
// CHECK: %[[P:.*]] = nn.matmul %{{.*}}, %[[WEIGHT]] {{.*}}-> tensor<24x40xbf16>
// CHECK: %[[ROWS:.*]] = nn.slice %[[P]] {{.*}} -> tensor<24x37xbf16>
// CHECK: nn.cast %[[ROWS]]
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<24x16xbf16>) -> tensor<24x37xf32> {
    %v = nn.weight "v" file 0 at 0 : tensor<37x16xf32>
    %w = nn.cast %v : (tensor<37x16xf32>) -> tensor<37x16xbf16>
    %p = nn.matmul %x, %w {transpose_rhs, exec.stored} : (tensor<24x16xbf16>, tensor<37x16xbf16>) -> tensor<24x37xbf16>
    %q = nn.cast %p : (tensor<24x37xbf16>) -> tensor<24x37xf32>
    return %q : tensor<24x37xf32>
  }
}
