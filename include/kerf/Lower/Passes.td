//===- Passes.td - passes of the lower phase --------------*- tablegen -*-===//
#ifndef KERF_LOWER_PASSES
#define KERF_LOWER_PASSES

include "kerf/Lower/GroupPasses.td"
include "kerf/Lower/PreparePasses.td"

def SetTarget : Pass<"kerf-set-target", "::mlir::ModuleOp"> {
  let summary = "Say what a module is lowered for";
  let description = [{
    Writes `exec.target` on the module. Every pass of the phase asks that and
    nothing else what the device and its libraries can do. Without it the target
    is the CPU's.

    ```mlir
    module {
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.relu %x : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    // becomes, with device=cuda
    module attributes {exec.target = #exec.target<cuda>} {
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.relu %x : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    ```
  }];
  let options = [
    Option<"device", "device", "::kerf::exec::Device", "::kerf::exec::Device::Cpu",
           "The kind of device", [{::llvm::cl::values(
             clEnumValN(::kerf::exec::Device::Cpu, "cpu", "oneDNN beside vector code"),
             clEnumValN(::kerf::exec::Device::Cuda, "cuda", "cuBLASLt and cuDNN beside PTX"))}]>
  ];
  let dependentDialects = ["::kerf::exec::ExecDialect"];
}

def OutlineLoops : Pass<"kerf-outline-loops", "::mlir::ModuleOp"> {
  let summary = "Make the bodies of loops functions";
  let description = [{
    What follows works on functions of one block. Parameters and small constants
    that a body reads are sources of its own; everything else that it reads from
    outside is an argument.

    ```mlir
    module {
      func.func @main(%x: tensor<4xf32>, %n: tensor<i64>, %go: tensor<i1>) -> tensor<4xf32> {
        %count, %y = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<4xf32>) {
        ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
          %0 = nn.relu %a : tensor<4xf32>
          %1 = nn.constant dense<true> : tensor<i1>
          nn.yield %1, %0 : tensor<i1>, tensor<4xf32>
        } : tensor<i64>, tensor<4xf32>
        return %y : tensor<4xf32>
      }
    }
    // becomes
    module {
      func.func @main(%x: tensor<4xf32>, %n: tensor<i64>, %go: tensor<i1>) -> tensor<4xf32> {
        %0:2 = exec.loop @main_loop0 trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<4xf32>)
            : tensor<i64>, tensor<4xf32>
        return %0#1 : tensor<4xf32>
      }
      func.func private @main_loop0(%i: tensor<i64>, %a: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
        %0 = nn.relu %a : tensor<4xf32>
        %1 = nn.constant dense<true> : tensor<i1>
        return %1, %0 : tensor<i1>, tensor<4xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect"];
}

//===----------------------------------------------------------------------===//
// From tensors to buffers
//===----------------------------------------------------------------------===//

def Bufferize : Pass<"kerf-bufferize", "::mlir::ModuleOp"> {
  let summary = "Turn functions of groups into calls on buffers";
  let description = [{
    Groups become kernels and launches, library calls read and write buffers,
    collectives of `dist` become calls, its schedules stages. Ops that are
    computed at load move to an `init` function, parameters get numbers.

    ```mlir
    module {
      func.func @main(%x: tensor<2x3xf32> {kerf.name = "x"}) -> (tensor<2x4xf32> {kerf.name = "y"}) {
        %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
        %e = exec.empty : tensor<2x4xf32>
        %0 = exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : tensor<2x3xf32>) rhs(%w : tensor<3x4xf32>)
            dst(%e : tensor<2x4xf32>) : tensor<2x4xf32>
        %f = exec.empty : tensor<2x4xf32>
        %1 = exec.group 0 "" (%a = %0 : tensor<2x4xf32>) into(%f : tensor<2x4xf32>) {
          %2 = nn.exp %a : tensor<2x4xf32>
          exec.yield %2 : tensor<2x4xf32>
        }
        return %1 : tensor<2x4xf32>
      }
    }
    // becomes
    module {
      exec.parameter 0 "w" : memref<3x4xf32>
          from #exec.file_range<file = 0, offset = 0, length = 48, stored = tensor<3x4xf32>> library_only
      exec.model_input 0 "x" : tensor<2x3xf32> -> tensor<2x3xf32>
      exec.model_output 0 "y" : tensor<2x4xf32> -> tensor<2x4xf32>
      exec.kernel @exp_0(%a: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {index = 0 : i64, node = ""} {
        %0 = nn.exp %a : tensor<2x4xf32>
        exec.yield %0 : tensor<2x4xf32>
      }
      exec.func @stage0_forward(%x: memref<2x3xf32> {kerf.name = "x"}, %y: memref<2x4xf32> {kerf.name = "y"})
          attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
        %w = exec.weight 0 : !exec.weight<3x4xf32>
        %0 = exec.arena : memref<2x4xf32>
        exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : !exec.weight<3x4xf32>)
            dst(%0 : memref<2x4xf32>)
        exec.launch @exp_0(%0) -> (%y) : (memref<2x4xf32>) -> memref<2x4xf32>
        exec.return
      }
      exec.stage 0 {
        %0 = exec.slot "x" : memref<2x3xf32>
        %1 = exec.slot "y" : memref<2x4xf32>
        exec.input 0 to %0 micro_batch 0 : memref<2x3xf32>
        exec.run @stage0_forward(%0, %1) micro_batch 0 : memref<2x3xf32>, memref<2x4xf32>
        exec.output %1 to 0 micro_batch 0 : memref<2x4xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect",
                           "::kerf::dist::DistDialect"];
}

def WorkInPlace : Pass<"kerf-work-in-place", "::mlir::ModuleOp"> {
  let summary = "Write results where operands were";
  let description = [{
    A kernel writes over an input of the same size that nobody reads any more, if
    code generation says that it may; a library call over the operand that it may
    overwrite; a collective that gives back the shape that it takes works in place.
    Sums over micro-batches that a stage runs its update on are overwritten by that
    function, if no later instruction of the stage reads their slots.

    ```mlir
    exec.kernel @relu_0(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {index = 0 : i64, node = "relu"} {
      %0 = nn.relu %x : tensor<2x3xf32>
      exec.yield %0 : tensor<2x3xf32>
    }
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>)
        attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      %0 = exec.arena : memref<2x3xf32>
      %1 = exec.arena : memref<2x3xf32>
      exec.copy %x -> %0 : memref<2x3xf32> -> memref<2x3xf32>
      exec.launch @relu_0(%0) -> (%1) : (memref<2x3xf32>) -> (memref<2x3xf32>)
      exec.copy %1 -> %y : memref<2x3xf32> -> memref<2x3xf32>
      exec.return
    }
    // becomes
    exec.kernel @relu_0(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {index = 0 : i64, node = "relu"} {
      %0 = nn.relu %x : tensor<2x3xf32>
      exec.yield %0 : tensor<2x3xf32>
    }
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>)
        attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      %0 = exec.arena : memref<2x3xf32>
      exec.copy %x -> %0 : memref<2x3xf32> -> memref<2x3xf32>
      exec.launch @relu_0(%0) -> (%0) : (memref<2x3xf32>) -> (memref<2x3xf32>)
      exec.copy %0 -> %y : memref<2x3xf32> -> memref<2x3xf32>
      exec.return
    }
    ```
  }];
}

def PlanArenas : Pass<"kerf-plan-arenas", "::mlir::ModuleOp"> {
  let summary = "Give buffers and slots their offsets";
  let description = [{
    Every buffer of a function and every slot of a stage gets an offset, first-fit
    by decreasing size. `scratch` is what a function needs, `arena` what its stage
    does (the largest scratch, slots behind it), and `lower_bound` what slots that
    are live together come to at least.

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

def VerifyAfterLower : Pass<"kerf-verify-after-lower", "::mlir::ModuleOp"> {
  let summary = "Check the contract between lowering and packaging";
  let description = [{
    Only `exec` ops are left, everything has an offset, buffers that are live
    together do not overlap, entries are numbered without gaps.
  }];
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

// Implemented in lib/Lower/Gpu, beside the code that packaging calls
// (compileGpuKernels).
def GpuKernels : Pass<"kerf-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Compile every kernel for GPUs";
  let description = [{
    Kernels, and library calls that are kernels on GPUs, get the attribute
    `cuda`: how they are launched. Kernels that are the same get one entry.

    ```mlir
    module {
      exec.kernel @exp(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {index = 0 : i64, node = "y"} {
        %0 = nn.exp %x : tensor<1024xf32>
        exec.yield %0 : tensor<1024xf32>
      }
    }
    // becomes
    module {
      exec.kernel @exp(%x: tensor<1024xf32>) -> tensor<1024xf32>
          attributes {cuda = #exec.gpu_kernel<"kerf_k0" grid [1, 1, 1] block [256, 1, 1] bytes [4096, 4096] reads 1>,
                      index = 0 : i64, node = "y"} {
        %0 = nn.exp %x : tensor<1024xf32>
        exec.yield %0 : tensor<1024xf32>
      }
    }
    ```

    What the assembler says of a kernel is a remark.
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect"];
  let options = [
    Option<"ptx", "ptx", "std::string", "",
           "Write the PTX of all kernels here; - is standard output">,
    Option<"dumpDir", "dump-dir", "std::string", "",
           "Write gpu.funcs, LLVM IR and PTX of each kernel here">,
    Option<"ptxas", "ptxas", "std::string", "", "Assemble with this program">
  ];
}

#endif // KERF_LOWER_PASSES
