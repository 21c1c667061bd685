//===- LoopEvaluator.h - upstream ops, element by element -------*- C++ -*-===//
//
// The reference for models of upstream ops: evaluates linalg by its loops, and
// tensor, arith and math op by op, in doubles. Shares nothing with the models.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_MODELS_LOOPEVALUATOR_H
#define KERF_UNITTESTS_MODELS_LOOPEVALUATOR_H

#include "kerf/Interpret/Interpret.h"

namespace kerf::test {

/// As interpret::Evaluator. Fails with an error on an op that it does not know.
mlir::FailureOr<llvm::SmallVector<interpret::Tensor, 1>>
evaluateUpstream(mlir::Operation *op,
                 llvm::ArrayRef<const interpret::Tensor *> operands);

/// Runs a function of one block; calls are followed. `largest`, if given: the
/// largest magnitude of what its ops compute; infinite if any is no number.
mlir::FailureOr<std::vector<interpret::Tensor>>
runUpstream(mlir::func::FuncOp function,
            llvm::ArrayRef<interpret::Tensor> inputs,
            double *largest = nullptr);

} // namespace kerf::test

#endif // KERF_UNITTESTS_MODELS_LOOPEVALUATOR_H
