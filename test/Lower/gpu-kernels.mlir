// Kernels, and library calls that are kernels on GPUs, say how they are launched; equal kernels are one entry.
//
// RUN: kerf-opt %s --kerf-gpu-kernels | FileCheck %s
// RUN: kerf-opt %s --kerf-gpu-kernels=ptx=%t.ptx | FileCheck %s
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// RUN: not kerf-opt %s --kerf-gpu-kernels=ptx=%t.no/such 2>&1 | FileCheck %s --check-prefix=ERROR
// REQUIRES: kerf-opt

// PTX: .visible .entry kerf_k0(
// PTX-NOT: .entry kerf_k1
// PTX: .visible .entry kerf_k2(
// ERROR: error: cannot write {{.*}}such

// CHECK: exec.kernel @exp{{.*}}cuda = #exec.gpu_kernel<"kerf_k0" grid [1, 1, 1] block [256, 1, 1] bytes [4096, 4096] reads 1>
exec.kernel @exp(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {index = 0 : i64, node = "y"} {
  %0 = nn.exp %x : tensor<1024xf32>
  exec.yield %0 : tensor<1024xf32>
}

// CHECK: exec.kernel @again{{.*}}cuda = #exec.gpu_kernel<"kerf_k0"
exec.kernel @again(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {index = 1 : i64, node = "z"} {
  %0 = nn.exp %x : tensor<1024xf32>
  exec.yield %0 : tensor<1024xf32>
}

// CHECK: exec.kernel @sum{{.*}}cuda = #exec.gpu_kernel<"kerf_k2"
exec.kernel @sum(%x: tensor<16x1024xf32>) -> tensor<16xf32> attributes {index = 2 : i64, node = "s"} {
  %0 = nn.reduce sum %x dims [1] : (tensor<16x1024xf32>) -> tensor<16xf32>
  exec.yield %0 : tensor<16xf32>
}
