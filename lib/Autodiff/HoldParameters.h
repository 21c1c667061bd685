//===- HoldParameters.h - arguments that stay at the ranks ------*- C++ -*-===//
#ifndef KERF_LIB_AUTODIFF_HOLDPARAMETERS_H
#define KERF_LIB_AUTODIFF_HOLDPARAMETERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::autodiff {

/// Arguments with `kerf.parameter` become weights. Fails, with an error at the
/// argument, if one is no tensor of static shape of numbers.
mlir::LogicalResult holdParameters(mlir::func::FuncOp function);

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_HOLDPARAMETERS_H
