// What a module is lowered for stands on it, and nothing else changes.
//
// RUN: kerf-opt %s --kerf-set-target=device=cuda | FileCheck %s --check-prefix=CUDA
// RUN: kerf-opt %s --kerf-set-target | FileCheck %s --check-prefix=CPU
// RUN: not kerf-opt %s --kerf-set-target=device=tpu 2>&1 | FileCheck %s --check-prefix=WRONG

// CUDA: module attributes {exec.target = #exec.target<cuda>}
// CPU: module attributes {exec.target = #exec.target<cpu>}
// WRONG: tpu
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CUDA: nn.relu
  // CPU: nn.relu
  %0 = nn.relu %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
