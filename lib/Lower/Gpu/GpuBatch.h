//===- GpuBatch.h - one launch for many updates -----------------*- C++ -*-===//
//
// Problem: a model has hundreds of parameters, most of them small, and a launch
// of each one's update costs more than the update.
//
// Idea: kernels that compute the same elementwise body on tensors of different
// extents have a common form, whose extents are those of a chunk. A table in
// device memory tells each block which tensors its chunk belongs to and how
// many elements they have (docs/Cuda.md, Batches). Extents in the table are 64
// bits wide, indices within a chunk 32.
//
// An input may be partial sums, one behind the other (gradients of biases,
// whose rows are added up in parts): an element then adds its parts in order.
//
// Invariant: an element is computed as in the original kernel, except for the
// order of such sums, by one thread, which reads it before it writes it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_GPUBATCH_H
#define KERF_LOWER_GPU_GPUBATCH_H

#include "kerf/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"

namespace kerf::cuda {

/// Elements of a tensor that one block computes, its threads, and the most
/// tensors of a table.
constexpr int64_t kBatchChunk = 16384, kBatchThreads = 256,
                  kBatchMembers = 4096;
/// The most partial sums.
constexpr int64_t kBatchParts = 32;

/// The kernel on tensors of kBatchChunk elements and on scalars, added to
/// `holder`; null if it is no elementwise function of tensors of one size (and
/// of sums of parts of that size, each of which is an argument of its own).
/// Equal structures (Codegen/Structure.h) mean that one launch can do both.
exec::KernelOp makeBatchForm(exec::KernelOp kernel, mlir::ModuleOp holder);

/// How many arguments of the form each argument of the kernel has become.
llvm::SmallVector<int64_t> batchParts(exec::KernelOp kernel);

/// Elements of the kernel's tensors.
int64_t batchElements(exec::KernelOp kernel);

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUBATCH_H
