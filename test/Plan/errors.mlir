// Every wish that cannot be is an error that names it.

// RUN: not kerf-opt %s --kerf-plan="devices=4 mesh=dp=3" 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: option mesh: degrees multiply to 3, expected a divisor of 4 devices

// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard=w=[{tp},{tp}]" 2>&1 | FileCheck %s --check-prefix=HINT
// HINT: error: option shard: '[{tp},{tp}]' is not a legal sharding of 'w'

// RUN: not kerf-opt %s --kerf-plan="devices=2 memory-limit=100" 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: no plan fits in memory: every plan needs at least {{[0-9]+}} bytes ({{[0-9.]+}} KiB) per device, the limit is 100 bytes per device

// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=3" 2>&1 | FileCheck %s --check-prefix=MICRO
// MICRO: error: option micro-batches: 3 does not divide the batch of 8

// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=mb=2" 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: error: option mesh: axis name "mb" is reserved for micro-batches, expected option micro-batches=N

// RUN: not kerf-opt %s --kerf-plan="devices=2 machine=abacus" 2>&1 | FileCheck %s --check-prefix=MACHINE
// MACHINE: error: machine: {{.*}}abacus

func.func @main(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %w = nn.constant {name = "w"} dense<0.1> : tensor<64x32xf32>
  %y = nn.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
