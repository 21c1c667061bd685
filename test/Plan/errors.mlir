// Every wish that cannot be is an error that names it.

// RUN: not kerf-opt %s --kerf-plan="devices=4 mesh=dp=3" 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: option mesh: degrees multiply to 3, expected a divisor of 4 devices

// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard=w=[{tp},{tp}]" 2>&1 | FileCheck %s --check-prefix=HINT
// HINT: error: option shard: '[{tp},{tp}]' is not a legal sharding of 'w'

// RUN: not kerf-opt %s --kerf-plan="devices=2 memory-limit=100" 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: no plan fits in memory: every plan{{.*}} needs at least {{[0-9]+}} bytes ({{[0-9.]+}} KiB) per device, the limit is 100 bytes per device

// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=3" 2>&1 | FileCheck %s --check-prefix=MICRO
// MICRO: error: option micro-batches: 3 does not divide the batch of 8, which 2, 4 and 8 do

// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=mb=2" 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: error: option mesh: axis name "mb" is reserved for micro-batches, expected option micro-batches=N

// RUN: not kerf-opt %s --kerf-plan="devices=2 machine=abacus" 2>&1 | FileCheck %s --check-prefix=MACHINE
// MACHINE: error: machine: {{.*}}abacus

// A batch is a dimension of an argument.
// RUN: not kerf-opt %s --kerf-plan="devices=2 batch-dim=nonesuch=0" 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: option batch-dim: no argument is named 'nonesuch'
// NAME: note: kerf.name names arguments; the first one without it is 'arg'
// RUN: not kerf-opt %s --kerf-plan="devices=2 batch-dim=w=0" 2>&1 | FileCheck %s --check-prefix=WEIGHT
// WEIGHT: error: option batch-dim: no argument is named 'w'
// RUN: not kerf-opt %s --kerf-plan="devices=2 batch-dim=arg=2" 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: error: option batch-dim: 'arg' has no dimension 2, expected less than its rank, 2, or -1: no batch
// RUN: not kerf-opt %s --kerf-plan="devices=2 batch-dim=arg=-2" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: option batch-dim: 'arg' has no dimension -2
// Without a batch nothing is cut for dp.
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2 batch-dim=arg=-1" | FileCheck %s --check-prefix=NONE
// NONE: #[[WHOLE:.*]] = #dist.sharding<{}, {}>
// NONE: func.func @main(%{{.*}}: tensor<8x64xf32> {dist.sharding = #[[WHOLE]]}) -> (tensor<8x32xf32> {dist.sharding = #[[WHOLE]]})
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2 batch-dim=arg=0" | FileCheck %s --check-prefix=ROWS
// ROWS: #[[ROWS:.*]] = #dist.sharding<{"dp"}, {}>
// ROWS: func.func @main(%{{.*}}: tensor<8x64xf32> {dist.sharding = #[[ROWS]]})

func.func @main(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %w = nn.constant {name = "w"} dense<0.1> : tensor<64x32xf32>
  %y = nn.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
