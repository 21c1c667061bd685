//===- Passes.td - from local functions to calls of the runtime -*- tablegen -*-===//
#ifndef KERF_RANKS_PASSES_TD
#define KERF_RANKS_PASSES_TD

include "mlir/Pass/PassBase.td"

def CallRuntime : Pass<"kerf-call-runtime", "::mlir::ModuleOp"> {
  let summary = "ops of dist become calls of the runtime's C ABI on memrefs";
  let description = [{
    After partition (and collectives) a module is functions of stages on local
    tensors, ops of `dist` in them, and a list of what each stage runs. This pass
    leaves func, tensor, linalg and memref, which upstream passes bufferize and
    lower to LLVM, and calls of `kerf/rt/ranks.h`:

    - Every function of a stage gets the rank (`!llvm.ptr`) and the number of the
      micro-batch as its first arguments. A collective becomes a call on the
      buffer of its operand and a new buffer.
    - `dist.mask`, `dist.all_slice`, `dist.pack`, ... become ops of linalg and
      tensor, `dist.shard_index` arithmetic on the rank's number.
    - The program's function, a declaration until then, is defined: it takes the
      rank, the inputs and the outputs, as whole memrefs, and runs the list of
      the rank's stage. The rank takes its parts of the inputs, and gives its
      parts of the outputs.
    - What the runtime has to know stands in a text beside it, under the name of
      the function and `_ranks`: the mesh, how inputs and outputs are cut, what
      the collectives and channels move.

    Every call is in a small function of its own, whose arguments are memrefs, so
    that their lives are seen until the call returns.

    ```mlir
    module {
      dist.mesh @mesh ["tp"=2]
      func.func @part(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    // becomes
    ```

    Run it before one-shot bufferization, and nothing in between that folds
    `bufferization.to_buffer` of values that are written in place. A program's
    state (`dist.assign`) and parameters that each rank would have to load are
    errors: they are arguments of such a program.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"];
}

#endif // KERF_RANKS_PASSES_TD
