// What the kernels of docs/Cuda.md look like in PTX.
// RUN: kerf-opt %s --kerf-gpu-kernels=ptx=- | FileCheck %s
// REQUIRES: kerf-opt

// No kernel calls anything, and nothing is kept in local memory.
// CHECK-NOT: .extern
// CHECK-NOT: .local

// Elementwise: 16 bytes per access; inputs that no output may overwrite by the
// read-only path.
// CHECK-LABEL: .visible .entry kerf_k0(
// CHECK: .maxntid 256, 1, 1
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: fma.rn.f32
// CHECK: st.global.v4.b32
exec.kernel @gelu(%x: tensor<128x768xf32>, %b: tensor<768xf32>) -> tensor<128x768xf32> attributes {index = 0 : i64, node = "/gelu"} {
  %0 = nn.add %x, %b : (tensor<128x768xf32>, tensor<768xf32>) -> tensor<128x768xf32>
  %1 = nn.gelu %0 {tanh} : tensor<128x768xf32>
  exec.yield %1 : tensor<128x768xf32>
}

// Eight numbers of bf16 are one access.
// CHECK-LABEL: .visible .entry kerf_k1(
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
exec.kernel @bf16(%x: tensor<64x512xbf16>) -> tensor<64x512xbf16> attributes {index = 1 : i64, node = "/tanh"} {
  %0 = nn.tanh %x : tensor<64x512xbf16>
  exec.yield %0 : tensor<64x512xbf16>
}

// A row of a warp's team: shuffles, no shared memory, no second read.
// CHECK-LABEL: .visible .entry kerf_k2(
// CHECK-NOT: .shared
// CHECK-COUNT-4: ld.global{{(.nc)?}}.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
exec.kernel @softmax(%x: tensor<12288x128xf32>, %m: tensor<128xf32>) -> tensor<12288x128xf32> attributes {index = 2 : i64, node = "/softmax"} {
  %0 = nn.add %x, %m : (tensor<12288x128xf32>, tensor<128xf32>) -> tensor<12288x128xf32>
  %1 = nn.softmax %0 dim 1 : tensor<12288x128xf32>
  exec.yield %1 : tensor<12288x128xf32>
}

// A row of a block: shuffles, then shared memory.
// CHECK-LABEL: .visible .entry kerf_k3(
// CHECK: .shared
// CHECK: shfl.sync.bfly.b32
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
exec.kernel @layer_norm(%x: tensor<64x4096xf32>, %s: tensor<4096xf32>, %b: tensor<4096xf32>) -> tensor<64x4096xf32>
    attributes {index = 3 : i64, node = "/norm"} {
  %0 = nn.layer_norm %x, %s, %b dim 1 epsilon 1.0e-05 : tensor<64x4096xf32>, tensor<4096xf32>
  exec.yield %0 : tensor<64x4096xf32>
}

// Sums of columns: threads side by side over columns, no shuffles.
// CHECK-LABEL: .visible .entry kerf_k4(
// CHECK-NOT: shfl
// CHECK: st.shared
// CHECK: bar.sync
exec.kernel @columns(%x: tensor<512x768xf32>) -> tensor<768xf32> attributes {index = 4 : i64, node = "/bias_gradient"} {
  %0 = nn.reduce sum %x dims [0] : (tensor<512x768xf32>) -> tensor<768xf32>
  exec.yield %0 : tensor<768xf32>
}

// A transpose goes through squares of 32 x 33 in shared memory.
// CHECK-LABEL: .visible .entry kerf_k5(
// CHECK: .shared .align 16 .b8 {{.*}}[4224]
// CHECK: ld.global.nc.b32
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
// CHECK: st.global
exec.kernel @transpose(%x: tensor<256x320xf32>) -> tensor<320x256xf32> attributes {index = 5 : i64, node = "/transpose"} {
  %0 = nn.transpose %x perm [1, 0] : (tensor<256x320xf32>) -> tensor<320x256xf32>
  exec.yield %0 : tensor<320x256xf32>
}

// Rows by index: a row's index is read once, its elements in 16 bytes; what is
// out of range takes the record of failures.
// CHECK-LABEL: .visible .entry kerf_k6(
// CHECK: ld.global.nc.b64
// CHECK: atom.{{.*}}cas.b32
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: st.global.v4.b32
exec.kernel @gather(%t: tensor<50257x768xf32>, %i: tensor<512xi64>) -> tensor<512x768xf32> attributes {index = 6 : i64, node = "/wte"} {
  %0 = nn.gather %t, %i dim 0 : (tensor<50257x768xf32>, tensor<512xi64>) -> tensor<512x768xf32>
  exec.yield %0 : tensor<512x768xf32>
}

// Its gradient is a call that is a kernel.
// CHECK-LABEL: .visible .entry kerf_c0(
// CHECK: .shared
// CHECK: bar.sync
// CHECK: add.rn.f32
exec.func @f(%i: memref<512xi64>, %u: memref<512x768xf32>, %y: memref<50257x768xf32>)
    attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase backward>, scratch = 0 : i64} {
  exec.scatter_add 0 "/wte" outer 1 rows 50257 inner 768 count 512
    indices(%i : memref<512xi64>) updates(%u : memref<512x768xf32>) dst(%y : memref<50257x768xf32>)
  exec.return
}

// A cache that is written, and a router's choice: each element has its thread.
// CHECK-LABEL: .visible .entry kerf_c1(
// CHECK: bar.sync
// CHECK: st.global.v4.b32
// CHECK-LABEL: .visible .entry kerf_c2(
// CHECK-NOT: bar.sync
// CHECK: setp.{{(gt|lt)}}.f32
// CHECK: st.global.b64
exec.func @g(%i: memref<8x4xi64>, %u: memref<8x4x64xf32>, %x: memref<8x512x64xf32>, %p: memref<512x8xf32>, %k: memref<512x2xi64>)
    attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 0 : i64} {
  exec.scatter 1 "/cache" set outer 8 rows 512 inner 64 count 4
    indices(%i : memref<8x4xi64>) updates(%u : memref<8x4x64xf32>) base(%x : memref<8x512x64xf32>) dst(%x : memref<8x512x64xf32>)
  exec.top_k 2 "/router" outer 512 rows 8 count 2 src(%p : memref<512x8xf32>) dst(%k : memref<512x2xi64>)
  exec.return
}

// The module that is left says how to launch them.
// CHECK: exec.kernel @gelu
// CHECK-SAME: cuda = #exec.gpu_kernel<"kerf_k0" grid [96, 1, 1] block [256, 1, 1] bytes [393216, 3072, 393216] reads 2>
// CHECK: exec.kernel @gather
// CHECK-SAME: reads 2 fails>
// CHECK: exec.scatter_add 0
// CHECK-SAME: cuda <"kerf_c0" grid
// CHECK: exec.scatter 1
// CHECK-SAME: cuda <"kerf_c1" grid
// CHECK: exec.top_k 2
// CHECK-SAME: cuda <"kerf_c2" grid [16, 1, 1] block [256, 1, 1]
