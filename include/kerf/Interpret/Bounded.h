//===- Bounded.h - outputs whose size is computed ---------------*- C++ -*-===//
#ifndef KERF_INTERPRET_BOUNDED_H
#define KERF_INTERPRET_BOUNDED_H

#include "kerf/Interpret/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::interpret {

/// What the model gives: the results of `function` as far as their lengths say
/// (kerf.bounded), without the lengths. None of none.
std::vector<Tensor> modelOutputs(mlir::func::FuncOp function,
                                 llvm::ArrayRef<Tensor> results);

} // namespace kerf::interpret

#endif // KERF_INTERPRET_BOUNDED_H
