//===- Structure.h - kernels that are the same ------------------*- C++ -*-===//
#ifndef KERF_LOWER_CODEGEN_STRUCTURE_H
#define KERF_LOWER_CODEGEN_STRUCTURE_H

#include "KernelPlan.h"

#include "kerf/Exec/Exec.h"

#include <vector>

namespace kerf::codegen {

/// What distinguishes the code of one kernel from that of another: ops, their
/// operands and attributes, types. Attributes and types are unique in a
/// context.
std::vector<const void *> structureOf(exec::KernelOp kernel);

/// The plan of a kernel's body; its inputs are all arguments, in order. An
/// error at the kernel if there is none.
mlir::FailureOr<KernelPlan> planOf(exec::KernelOp kernel);

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_STRUCTURE_H
