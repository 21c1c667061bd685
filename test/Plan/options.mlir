// Options of passes are checked: what does not exist is no default.
// REQUIRES: kerf-opt
// RUN: not kerf-opt %s --kerf-plan="solver=fast" 2>&1 | FileCheck %s --check-prefix=SOLVER
// RUN: not kerf-opt %s --kerf-plan="objective=speed" 2>&1 | FileCheck %s --check-prefix=OBJECTIVE
// RUN: not kerf-opt %s --kerf-plan="cost-model=tree" 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not kerf-opt %s --kerf-plan="memory-limit=-1" 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not kerf-opt %s --kerf-plan="devices=0" 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not kerf-opt %s --kerf-plan="schedule=zb" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not kerf-opt %s --kerf-lower-precision="precision=f8" 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: not kerf-opt %s --kerf-autodiff="batch-norm=none" 2>&1 | FileCheck %s --check-prefix=NORM
// SOLVER: Cannot find option named 'fast'
// OBJECTIVE: Cannot find option named 'speed'
// MODEL: Cannot find option named 'tree'
// LIMIT: memory-limit: -1, expected at least 0
// DEVICES: devices: 0, expected at least 1
// SCHEDULE: schedule: 'zb', expected auto, gpipe, 1f1b or interleaved
// PRECISION: Cannot find option named 'f8'
// NORM: Cannot find option named 'none'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
