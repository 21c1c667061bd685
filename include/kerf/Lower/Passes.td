//===- Passes.td - passes of the lower phase --------------*- tablegen -*-===//
#ifndef KERF_LOWER_PASSES
#define KERF_LOWER_PASSES

include "kerf/Lower/GroupPasses.td"
include "kerf/Lower/PreparePasses.td"

def SetTarget : Pass<"set-target", "::mlir::ModuleOp"> {
  let summary = "Say what a module is lowered for";
  let description = [{
    Writes `exec.target` on the module: `set-target{device=cuda}` gives it
    `#exec.target<device = cuda, half_products = true, memory_bound = true, row_bytes = 16>`.
    Every pass of the phase reads there, and only there, what the device and its
    libraries can do. Without it the target is the CPU's.
  }];
  let options = [
    Option<"device", "device", "::kerf::exec::Device", "::kerf::exec::Device::Cpu",
           "The kind of device", [{::llvm::cl::values(
             clEnumValN(::kerf::exec::Device::Cpu, "cpu", "oneDNN beside vector code"),
             clEnumValN(::kerf::exec::Device::Cuda, "cuda", "cuBLASLt and cuDNN beside PTX"))}]>
  ];
  let dependentDialects = ["::kerf::exec::ExecDialect"];
}

//===----------------------------------------------------------------------===//
// From tensors to buffers
//===----------------------------------------------------------------------===//

def Bufferize : Pass<"bufferize", "::mlir::ModuleOp"> {
  let summary = "Turn functions of groups into calls on buffers";
  let description = [{
    Groups become kernels and launches, library calls read and write buffers,
    collectives of `dist` become calls, its schedules stages. Ops that are
    computed at load move to an `init` function, parameters get numbers.

    ```mlir
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
      %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
      %b = nn.weight "b" file 0 at 48 : tensor<4xf32>
      %0 = exec.empty : tensor<2x4xf32>
      %1 = exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : tensor<2x3xf32>) rhs(%w : tensor<3x4xf32>)
          bias(%b : tensor<4xf32>) dst(%0 : tensor<2x4xf32>) then [relu] : tensor<2x4xf32>
      return %1 : tensor<2x4xf32>
    }
    // becomes
    exec.parameter 0 "w" : memref<3x4xf32> from ...
    exec.parameter 1 "b" : memref<4xf32> from ...
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x4xf32>) ... {
      %b = exec.weight 1 : !exec.weight<4xf32>
      %w = exec.weight 0 : !exec.weight<3x4xf32>
      exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : !exec.weight<3x4xf32>)
          bias(%b : !exec.weight<4xf32>) dst(%y : memref<2x4xf32>) then [relu]
      exec.return
    }
    exec.stage 0 {
      %0 = exec.slot "x" : memref<2x3xf32>
      %1 = exec.slot "y" : memref<2x4xf32>
      exec.input 0 to %0 micro_batch 0 : memref<2x3xf32>
      exec.run @stage0_forward(%0, %1) micro_batch 0 : memref<2x3xf32>, memref<2x4xf32>
      exec.output %1 to 0 micro_batch 0 : memref<2x4xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect",
                           "::kerf::dist::DistDialect"];
}

def PlanArenas : Pass<"plan-arenas", "::mlir::ModuleOp"> {
  let summary = "Give buffers and slots their offsets";
  let description = [{
    Kernels write over inputs that are not read any more and all-reduces work in
    place; then every buffer gets an offset, first-fit by decreasing size.

    ```mlir
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>)
        attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      %0 = exec.arena : memref<2x3xf32>
      exec.copy %x -> %0 : memref<2x3xf32> -> memref<2x3xf32>
      exec.copy %0 -> %y : memref<2x3xf32> -> memref<2x3xf32>
      exec.return
    }
    // becomes
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>)
        attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 64 : i64} {
      %0 = exec.arena at 0 : memref<2x3xf32>
      exec.copy %x -> %0 : memref<2x3xf32> -> memref<2x3xf32>
      exec.copy %0 -> %y : memref<2x3xf32> -> memref<2x3xf32>
      exec.return
    }
    ```
  }];
}

def VerifyAfterLower : Pass<"verify-after-lower", "::mlir::ModuleOp"> {
  let summary = "Check the contract between lowering and packaging";
  let description = [{
    Only `exec` ops are left, everything has an offset, buffers that are live
    together do not overlap, entries are numbered without gaps.
  }];
}

#endif // KERF_LOWER_PASSES
