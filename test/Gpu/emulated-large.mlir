// Kernels whose mappings only large shapes have: several vectors per thread,
// wide vectors over columns, rows that do not fit into registers, tails.
// REQUIRES: kerf
// RUN: env KERF_TEST_KERNELS=%s %build/unittests/KerfGpuTests --gtest_filter=GpuModels.*

exec.kernel @u4(%x: tensor<1056x4096xf32>, %b: tensor<4096xf32>) -> tensor<1056x4096xf32> attributes {index = 0 : i64, node = "/node"} {
  %0 = nn.add %x, %b : (tensor<1056x4096xf32>, tensor<4096xf32>) -> tensor<1056x4096xf32>
  %1 = nn.relu %0 : tensor<1056x4096xf32>
  exec.yield %1 : tensor<1056x4096xf32>
}
exec.kernel @u2(%x: tensor<1056x2048xf32>, %y: tensor<1056x2048xf32>) -> (tensor<1056x2048xf32>, tensor<1056x2048xf32>)
    attributes {index = 1 : i64, node = "/node"} {
  %0 = nn.add %x, %y : tensor<1056x2048xf32>
  %1 = nn.mul %0, %y : tensor<1056x2048xf32>
  exec.yield %0, %1 : tensor<1056x2048xf32>, tensor<1056x2048xf32>
}
exec.kernel @wide(%x: tensor<64x33792xf32>) -> tensor<33792xf32> attributes {index = 2 : i64, node = "/node"} {
  %0 = nn.reduce sum %x dims [0] : (tensor<64x33792xf32>) -> tensor<33792xf32>
  exec.yield %0 : tensor<33792xf32>
}
exec.kernel @odd(%x: tensor<5x50257xf32>) -> tensor<5x50257xf32> attributes {index = 3 : i64, node = "/node"} {
  %0 = nn.softmax %x dim 1 : tensor<5x50257xf32>
  exec.yield %0 : tensor<5x50257xf32>
}
exec.kernel @widesoft(%x: tensor<70x33792xbf16>) -> tensor<70x33792xbf16> attributes {index = 4 : i64, node = "/node"} {
  %0 = nn.softmax %x dim 0 : tensor<70x33792xbf16>
  exec.yield %0 : tensor<70x33792xbf16>
}
exec.kernel @tail(%x: tensor<4001xbf16>) -> tensor<4001xbf16> attributes {index = 5 : i64, node = "/node"} {
  %0 = nn.tanh %x : tensor<4001xbf16>
  exec.yield %0 : tensor<4001xbf16>
}
exec.kernel @longrow(%x: tensor<3x20000xf32>, %s: tensor<20000xf32>, %b: tensor<20000xf32>) -> tensor<3x20000xf32>
    attributes {index = 6 : i64, node = "/node"} {
  %0 = nn.layer_norm %x, %s, %b dim 1 epsilon 1.0e-05 : tensor<3x20000xf32>, tensor<20000xf32>
  exec.yield %0 : tensor<3x20000xf32>
}
