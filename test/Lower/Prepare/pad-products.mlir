// RUN: kerf-opt %s --split-input-file --kerf-pad-products | FileCheck %s
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

// -----

// A product that is not padded, since 16 bits of it are read by others, reads the wide rows that another product reads.
// CHECK-LABEL: func.func @main
// CHECK: %[[WIDE:.*]] = nn.select {{.*}} -> tensor<24x40xbf16>
// CHECK: nn.matmul %[[WIDE]], {{.*}} : (tensor<24x40xbf16>, tensor<40x16xbf16>) -> tensor<24x16xbf16>
// CHECK: %[[PART:.*]] = nn.slice %[[WIDE]] {{.*}} -> tensor<24x37xbf16>
// CHECK: nn.matmul %[[PART]], {{.*}} {transpose_lhs} : (tensor<24x37xbf16>, tensor<24x16xbf16>) -> tensor<37x16xbf16>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<24x16xbf16>) -> (tensor<24x16xbf16>, tensor<37x16xbf16>) {
    %v = nn.weight "v" file 0 at 0 : tensor<37x16xf32>
    %w = nn.cast %v : (tensor<37x16xf32>) -> tensor<37x16xbf16>
    %p = nn.matmul %x, %w {transpose_rhs, exec.stored} : (tensor<24x16xbf16>, tensor<37x16xbf16>) -> tensor<24x37xbf16>
    %q = nn.exp %p : tensor<24x37xbf16>
    %dx = nn.matmul %q, %w : (tensor<24x37xbf16>, tensor<37x16xbf16>) -> tensor<24x16xbf16>
    %dw = nn.matmul %q, %x {transpose_lhs} : (tensor<24x37xbf16>, tensor<24x16xbf16>) -> tensor<37x16xbf16>
    return %dx, %dw : tensor<24x16xbf16>, tensor<37x16xbf16>
  }
}
