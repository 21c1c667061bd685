// Options of passes are checked: what does not exist is no default.
// REQUIRES: kerf-opt
// RUN: not kerf-opt %s --kerf-plan="solver=fast" 2>&1 | FileCheck %s --check-prefix=SOLVER
// RUN: not kerf-opt %s --kerf-plan="objective=speed" 2>&1 | FileCheck %s --check-prefix=OBJECTIVE
// RUN: not kerf-opt %s --kerf-plan="cost-model=tree" 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not kerf-opt %s --kerf-plan="memory-limit=-1" 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not kerf-opt %s --kerf-plan="memory-limit=1000 rejected=-3" 2>&1 | FileCheck %s --check-prefix=REJECTED
// RUN: not kerf-opt %s --kerf-plan="devices=0" 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not kerf-opt %s --kerf-plan="schedule=zb" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not kerf-opt %s --kerf-lower-precision="precision=f8" 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: not kerf-opt %s --kerf-autodiff="batch-norm=none" 2>&1 | FileCheck %s --check-prefix=NORM
// RUN: not kerf-opt %s --kerf-autodiff="loss=y clip-norm=-1" 2>&1 | FileCheck %s --check-prefix=CLIP
// RUN: not kerf-opt %s --kerf-autodiff="loss=y clip-norm=nan" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not kerf-opt %s --kerf-autodiff="loss=y micro-batches=0" 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not kerf-opt %s --kerf-autodiff="loss=y data-parallel=0" 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: not kerf-opt %s --kerf-autodiff="loss=y gradient-dtype=f8" 2>&1 | FileCheck %s --check-prefix=SENT
// RUN: not kerf-opt %s --kerf-recompute="every=-1" 2>&1 | FileCheck %s --check-prefix=EVERY
// RUN: not kerf-opt %s --kerf-apply-plan="devices=0" 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not kerf-opt %s --kerf-recognise-attention="lowest=0" 2>&1 | FileCheck %s --check-prefix=LOWEST
// RUN: not kerf-opt %s --kerf-bucket-collectives="max-bytes=-5" 2>&1 | FileCheck %s --check-prefix=BUCKET
// RUN: not kerf-opt %s --kerf-bucket-collectives="gradient-bytes=-1" 2>&1 | FileCheck %s --check-prefix=GRADIENT
// RUN: not kerf-opt %s --kerf-bucket-collectives="packed-bytes=-1" 2>&1 | FileCheck %s --check-prefix=PACKED
// RUN: not kerf-opt %s --kerf-collectives="bucket-bytes=-5" 2>&1 | FileCheck %s --check-prefix=BUCKET
// RUN: not kerf-opt %s --kerf-overlap-collectives="max-started=-1" 2>&1 | FileCheck %s --check-prefix=STARTED
// RUN: not kerf-opt %s --kerf-write-package="output=%t.kerf precision=f8" 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: not kerf-opt %s --kerf-set-target="device=tpu" 2>&1 | FileCheck %s --check-prefix=DEVICE
// SOLVER: Cannot find option named 'fast'
// OBJECTIVE: Cannot find option named 'speed'
// MODEL: Cannot find option named 'tree'
// LIMIT: memory-limit: -1, expected at least 0
// REJECTED: rejected: -3, expected at least 1
// DEVICES: devices: 0, expected at least 1
// SCHEDULE: schedule: 'zb', expected auto, gpipe, 1f1b or interleaved
// PRECISION: Cannot find option named 'f8'
// NORM: Cannot find option named 'none'
// CLIP: error: clip-norm: -1.00, expected a number that is at least 0
// NAN: error: clip-norm: nan, expected a number that is at least 0
// GROUPS: error: micro-batches: 0, expected at least 1
// PARTS: error: data-parallel: 0, expected at least 1
// SENT: error: gradient-dtype: 'f8', expected f32, bf16 or f16
// EVERY: error: every: -1, expected at least 0
// LOWEST: error: lowest: 0.00, expected a number below 0
// BUCKET: error: max-bytes: -5, expected at least 0
// GRADIENT: error: gradient-bytes: -1, expected at least 0
// PACKED: error: packed-bytes: -1, expected at least 0
// STARTED: error: max-started: -1, expected at least 1
// DEVICE: Cannot find option named 'tpu'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
