//===- KernelFunctions.h - an exec.func around each kernel ------*- C++ -*-===//
#ifndef KERF_UNITTESTS_CODEGEN_KERNELFUNCTIONS_H
#define KERF_UNITTESTS_CODEGEN_KERNELFUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf::test {

/// Adds a function @run_NAME for each exec.kernel @NAME, whose arguments are
/// the kernel's inputs, then its outputs, and which launches it.
void addFunctions(mlir::ModuleOp module);

} // namespace kerf::test

#endif // KERF_UNITTESTS_CODEGEN_KERNELFUNCTIONS_H
