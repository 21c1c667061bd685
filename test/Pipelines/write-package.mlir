// A lowered module becomes a package that runs; what cannot be written is an error, and leaves nothing.
// REQUIRES: kerf-opt, kerf-run
// RUN: rm -rf %t.kerf %t.none.kerf %t.folder
// RUN: kerf-opt %s --kerf-write-package="output=%t.kerf cpu=x86-64-v2" | FileCheck %s
// RUN: FileCheck %s --check-prefix=MANIFEST --input-file=%t.kerf/manifest.json
// RUN: kerf-run %t.kerf --input=x=1 | FileCheck %s --check-prefix=RESULT
// The module says for which device it was lowered.
// RUN: sed 's/{exec.mesh/{exec.target = #exec.target<cuda>, exec.mesh/' %s > %t.cuda.mlir
// RUN: kerf-opt %t.cuda.mlir --kerf-write-package="output=%t.cuda.kerf cpu=x86-64-v2 precision=bf16" -o %t.same
// RUN: FileCheck %s --check-prefix=CUDA --input-file=%t.cuda.kerf/manifest.json
// The folder is replaced, if it is a package.
// RUN: kerf-opt %s --kerf-write-package="output=%t.kerf" -o %t.same
// RUN: mkdir %t.folder
// RUN: not kerf-opt %s --kerf-write-package="output=%t.folder" 2>&1 | FileCheck %s --check-prefix=TAKEN
// RUN: not kerf-opt %s --kerf-write-package 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not kerf-opt %s --kerf-write-package="output=%t.none.kerf cpu=abacus" 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not kerf-opt %s --kerf-write-package="output=%t.none.kerf plan=%t.same" 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: echo '{"schema": "kerf.run/1"}' > %t.json
// RUN: not kerf-opt %s --kerf-write-package="output=%t.none.kerf plan=%t.json" 2>&1 | FileCheck %s --check-prefix=SCHEMA
// RUN: not ls %t.none.kerf

// MANIFEST: "x86-64-v2"
// CUDA-DAG: "device": "cuda"
// CUDA-DAG: "precision": "bf16"
// RESULT: y: f32 4, min 2.71828, max 2.71828
// TAKEN: error: {{.*}}.folder: exists and is not a package
// NOWHERE: error: option output is missing, the folder to write
// CPU: error: {{.*}}abacus
// PLAN: error: option plan: {{.*}}.same: is not valid JSON
// SCHEMA: error: option plan: {{.*}}.json: schema is "kerf.run/1", expected "kerf.plan/1"

// The IR stays as it is.
// CHECK: exec.launch @exp
#whole = #dist.sharding<{}>
module @tiny attributes {exec.mesh = #dist<mesh_shape[]>} {
  exec.model_input 0 "x" : tensor<4xf32> -> tensor<4xf32> sharding #whole
  exec.model_output 0 "y" : tensor<4xf32> -> tensor<4xf32> sharding #whole
  exec.kernel @exp(%x: tensor<4xf32>) -> tensor<4xf32> attributes {index = 0 : i64, node = "y"} {
    %0 = nn.exp %x : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  exec.func @stage0_forward(%x: memref<4xf32>, %y: memref<4xf32>)
      attributes {num_inputs = 1 : i64, phase = #exec<phase forward>, scratch = 0 : i64, stage = 0 : i64} {
    exec.launch @exp(%x) -> (%y) : (memref<4xf32>) -> memref<4xf32>
    exec.return
  }
  exec.stage 0 arena 128 lower_bound 128 {
    %0 = exec.slot "input" at 0 : memref<4xf32>
    %1 = exec.slot "result" at 64 : memref<4xf32>
    exec.input 0 to %0 micro_batch 0 : memref<4xf32>
    exec.run @stage0_forward(%0, %1) micro_batch 0 : memref<4xf32>, memref<4xf32>
    exec.output %1 to 0 micro_batch 0 : memref<4xf32>
  }
}
