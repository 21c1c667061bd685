// The widths and limits of a target reach the code that is generated for it: threads of a block, vectors of a CPU.
// REQUIRES: kerf-opt
// RUN: sed 's/TARGET/cuda/' %s > %t.usual.mlir
// RUN: kerf-opt %t.usual.mlir --kerf-write-package="output=%t.usual.kerf cpu=x86-64-v2" -o %t.same
// RUN: FileCheck %s --check-prefix=USUAL --input-file=%t.usual.kerf/manifest.json
// RUN: sed 's/TARGET/cuda, block_threads = 256/' %s > %t.small.mlir
// RUN: kerf-opt %t.small.mlir --kerf-write-package="output=%t.small.kerf cpu=x86-64-v2" -o %t.same
// RUN: FileCheck %s --check-prefix=SMALL --input-file=%t.small.kerf/manifest.json
// RUN: sed 's/TARGET/cpu, vector_bytes = 32/' %s > %t.narrow.mlir
// RUN: kerf-opt %t.narrow.mlir --kerf-write-package="output=%t.narrow.kerf cpu=x86-64-v4" -o %t.same
// RUN: llvm-objdump -d %t.narrow.kerf/program.so | FileCheck %s --check-prefix=NARROW
// RUN: sed 's/TARGET/cpu/' %s > %t.wide.mlir
// RUN: kerf-opt %t.wide.mlir --kerf-write-package="output=%t.wide.kerf cpu=x86-64-v4" -o %t.same
// RUN: llvm-objdump -d %t.wide.kerf/program.so | FileCheck %s --check-prefix=WIDE

// USUAL: "block": [
// USUAL-NEXT: 1024,
// SMALL: "block": [
// SMALL-NEXT: 256,
// NARROW-NOT: %zmm
// NARROW: %ymm
// NARROW-NOT: %zmm
// WIDE: %zmm
#whole = #dist.sharding<{}, {}>
module @rows attributes {exec.target = #exec.target<TARGET>, exec.mesh = #dist<mesh_shape[]>} {
  exec.model_input 0 "x" : tensor<4x32768xf32> -> tensor<4x32768xf32> sharding #whole
  exec.model_output 0 "y" : tensor<4x32768xf32> -> tensor<4x32768xf32> sharding #whole
  exec.kernel @rows(%x: tensor<4x32768xf32>) -> tensor<4x32768xf32> attributes {index = 0 : i64, node = "y"} {
    %0 = nn.softmax %x dim 1 : tensor<4x32768xf32>
    exec.yield %0 : tensor<4x32768xf32>
  }
  exec.func @stage0_forward(%x: memref<4x32768xf32>, %y: memref<4x32768xf32>)
      attributes {num_inputs = 1 : i64, phase = #exec<phase forward>, scratch = 0 : i64, stage = 0 : i64} {
    exec.launch @rows(%x) -> (%y) : (memref<4x32768xf32>) -> memref<4x32768xf32>
    exec.return
  }
  exec.stage 0 arena 1048576 lower_bound 1048576 {
    %0 = exec.slot "input" at 0 : memref<4x32768xf32>
    %1 = exec.slot "result" at 524288 : memref<4x32768xf32>
    exec.input 0 to %0 micro_batch 0 : memref<4x32768xf32>
    exec.run @stage0_forward(%0, %1) micro_batch 0 : memref<4x32768xf32>, memref<4x32768xf32>
    exec.output %1 to 0 micro_batch 0 : memref<4x32768xf32>
  }
}
