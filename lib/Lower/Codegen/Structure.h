//===- Structure.h - kernels that are the same ------------------*- C++ -*-===//
#ifndef KERF_LOWER_CODEGEN_STRUCTURE_H
#define KERF_LOWER_CODEGEN_STRUCTURE_H

#include "KernelPlan.h"

#include "kerf/Exec/Exec.h"

#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace kerf::codegen {

/// A kernel, and where in its buffers each of its inputs begins for it.
struct PlacedKernel {
  exec::KernelOp kernel;
  llvm::SmallVector<int64_t> byteOffsets;  ///< of inputs; empty: all 0
  mlir::OwningOpRef<exec::KernelOp> owner; ///< null: the module's
};

/// The kernel with the place of its slices taken out: where an argument is read
/// by slices alone, these start at 0, and the launch hands over the buffer from
/// the first element that they read. So kernels that read other parts of the
/// same buffers are equal: the steps of an unrolled loop.
///
///   %0 = nn.slice %arg0 from [0, 5, 0] : (2x32x512) -> 2x1x512
/// becomes, with the offset 5 * 512 elements,
///   %0 = nn.slice %arg0 from [0, 0, 0] : (2x32x512) -> 2x1x512
///
/// The argument keeps its type: what the kernel reads is what it read before,
/// counted from another element.
PlacedKernel placeInputs(exec::KernelOp kernel);

/// What distinguishes the code of one kernel from that of another: ops, their
/// operands and attributes, types. Attributes and types are unique in a
/// context.
std::vector<const void *> structureOf(exec::KernelOp kernel);

/// The plan of a kernel's body; its inputs are all arguments, in order. An
/// error at the kernel if there is none.
mlir::FailureOr<KernelPlan> planOf(exec::KernelOp kernel);

/// Those of a kernel's ops that may fail at run time, in their order: they read
/// at indices, or divide integers.
llvm::SmallVector<mlir::Operation *>
failingOps(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_STRUCTURE_H
