//===- GpuBatch.h - one launch for many updates -----------------*- C++ -*-===//
//
// Problem: a model has hundreds of parameters, most of them small, and a launch
// of each one's update costs more than the update.
//
// Idea: kernels that compute the same elementwise body on tensors of different
// extents have one form in which all extents are that of a chunk. Its code
// finds in a table in device memory whose chunk a block is: which tensors, and
// how many elements they have (docs/Cuda.md, Batches). Extents are 64 bits wide
// in the table, indices within a chunk 32.
//
// Invariant: an element is computed as in the kernel that it stands for, by one
// thread, which reads it before it writes it.
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

/// The kernel on tensors of kBatchChunk elements and on scalars, added to
/// `holder`; null if it is no elementwise function of tensors of one size.
/// Equal structures (Codegen/Structure.h) mean that one launch can do both.
exec::KernelOp makeBatchForm(exec::KernelOp kernel, mlir::ModuleOp holder);

/// Elements of the kernel's tensors.
int64_t batchElements(exec::KernelOp kernel);

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUBATCH_H
