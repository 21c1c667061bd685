// RUN: kerf-opt %s --split-input-file --kerf-prepare --kerf-form-groups --kerf-bufferize | FileCheck %s
// REQUIRES: kerf-opt

// A rounding for the way between devices goes where nothing travels: the gradient
// is what the update reads. So does a value that is widened and rounded back.
// CHECK-NOT: bf16
// CHECK: exec.func @stage0_forward
// CHECK: exec.launch @add_
// CHECK-NOT: bf16
func.func @main(%g: tensor<64xf32>, %w: tensor<64xf32>) -> tensor<64xf32> {
  %n = nn.cast %g {kerf.transfer_cast} : (tensor<64xf32>) -> tensor<64xbf16>
  %b = nn.cast %n : (tensor<64xbf16>) -> tensor<64xf32>
  %r = nn.add %w, %b : tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

// One that was asked for stays.
// CHECK: exec.kernel
// CHECK: -> tensor<64xbf16>
func.func @main(%g: tensor<64xf32>, %w: tensor<64xf32>) -> tensor<64xf32> {
  %n = nn.cast %g : (tensor<64xf32>) -> tensor<64xbf16>
  %b = nn.cast %n : (tensor<64xbf16>) -> tensor<64xf32>
  %r = nn.add %w, %b : tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

// The CPU's library has no products of float16: they are of rounded float32, the
// weight is rounded at load, and what is wanted in float32 is not rounded.
// CHECK: exec.func @stage0_forward_init
// CHECK: exec.func @stage0_forward(
// CHECK: exec.launch @cast_cast_
// CHECK: exec.matmul 0 {{.*}}lhs({{[^)]*}}xf32>){{.*}}dst({{.*}}then [relu]
// CHECK-NOT: exec.launch
// CHECK: exec.return
func.func @main(%x: tensor<6x8xf32>) -> tensor<6x4xf32> {
  %w = nn.weight "w" file 0 at 0 : tensor<8x4xf32>
  %n = nn.cast %x : (tensor<6x8xf32>) -> tensor<6x8xf16>
  %m = nn.cast %w : (tensor<8x4xf32>) -> tensor<8x4xf16>
  %p = nn.matmul %n, %m : (tensor<6x8xf16>, tensor<8x4xf16>) -> tensor<6x4xf16>
  %y = nn.cast %p : (tensor<6x4xf16>) -> tensor<6x4xf32>
  %r = nn.relu %y : tensor<6x4xf32>
  return %r : tensor<6x4xf32>
}

// -----

// GPUs have them.
// CHECK: exec.matmul 0 {{.*}}lhs({{[^)]*}}xf16>){{.*}}dst({{[^)]*}}xf32>)
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xf32>) -> tensor<6x4xf32> {
    %w = nn.weight "w" file 0 at 0 : tensor<8x4xf32>
    %n = nn.cast %x : (tensor<6x8xf32>) -> tensor<6x8xf16>
    %m = nn.cast %w : (tensor<8x4xf32>) -> tensor<8x4xf16>
    %p = nn.matmul %n, %m : (tensor<6x8xf16>, tensor<8x4xf16>) -> tensor<6x4xf16>
    %y = nn.cast %p : (tensor<6x4xf16>) -> tensor<6x4xf32>
    return %y : tensor<6x4xf32>
  }
}
