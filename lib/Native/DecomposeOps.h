//===- DecomposeOps.h - ops that have no loops of their own -----*- C++ -*-===//
#ifndef KERF_LIB_NATIVE_DECOMPOSEOPS_H
#define KERF_LIB_NATIVE_DECOMPOSEOPS_H

#include "mlir/Pass/Pass.h"

namespace kerf::native {

/// Takes apart what the passes behind it do not lower.
std::unique_ptr<mlir::Pass> createDecomposeOps();

} // namespace kerf::native

#endif // KERF_LIB_NATIVE_DECOMPOSEOPS_H
