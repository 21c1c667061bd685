//===- Passes.td - from local functions to calls of the runtime -*- tablegen -*-===//
#ifndef KERF_RANKS_PASSES_TD
#define KERF_RANKS_PASSES_TD

include "mlir/Pass/PassBase.td"

def CallRuntime : Pass<"kerf-call-runtime", "::mlir::ModuleOp"> {
  let summary = "ops of dist become calls of the runtime's C ABI on memrefs";
  // A list of objects ends as a string of code does, so it is put in between.
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
      func.func @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    // becomes
    module {
      llvm.mlir.global external constant @kerf_ranks("{\22abi\22:2,\22collectives\22:[{\22axes\22:[{\22axis\22:\22tp\22}] # "}]" # [{,\22dst_shape\22:[4],\22dtype\22:\22f32\22,\22group_bytes\22:32,\22kind\22:\22all_reduce\22,\22node\22:\22\22,\22reduction\22:\22sum\22,\22src_shape\22:[4]}] # "}]" # [{,\22mesh\22:{\22axes\22:[{\22name\22:\22tp\22,\22size\22:2}] # "}]" # [{},\22schema\22:\22kerf.ranks/1\22}\00") {addr_space = 0 : i32}
      func.func @sum(%arg0: !llvm.ptr, %arg1: i64, %arg2: tensor<4xf32>) -> tensor<4xf32> {
        %0 = bufferization.to_buffer %arg2 read_only {read = 0 : i64} : tensor<4xf32> to memref<4xf32>
        %alloc = memref.alloc() : memref<4xf32>
        %c0_i64 = arith.constant 0 : i64
        call @kerf_all_reduce_0(%arg0, %c0_i64, %0, %alloc)
          : (!llvm.ptr, i64, memref<4xf32>, memref<4xf32>) -> ()
        %1 = bufferization.to_tensor %alloc restrict : memref<4xf32> to tensor<4xf32>
        return %1 : tensor<4xf32>
      }
      func.func private @kerf_all_reduce_0(%arg0: !llvm.ptr, %arg1: i64, %arg2: memref<4xf32>, %arg3: memref<4xf32>)
          attributes {no_inline} {
        %intptr = memref.extract_aligned_pointer_as_index %arg2 : memref<4xf32> -> index
        %0 = arith.index_cast %intptr : index to i64
        %1 = llvm.inttoptr %0 : i64 to !llvm.ptr
        %intptr_0 = memref.extract_aligned_pointer_as_index %arg3 : memref<4xf32> -> index
        %2 = arith.index_cast %intptr_0 : index to i64
        %3 = llvm.inttoptr %2 : i64 to !llvm.ptr
        llvm.call @kerf_rank_collective(%arg0, %arg1, %1, %3) : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr) -> ()
        return
      }
      llvm.func @kerf_rank_collective(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr)
    }
    ```

    Run it before one-shot bufferization. Each read of a tensor has a number,
    without which CSE would merge two of them. Parameters (sources that are no
    splats) and what `dist.assign` gives them stay at the ranks: a source becomes a
    copy of the rank's part, an assignment replaces it, and the host writes and
    reads whole tensors by name between runs (`kerf_ranks_write`).
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"];
}

#endif // KERF_RANKS_PASSES_TD
