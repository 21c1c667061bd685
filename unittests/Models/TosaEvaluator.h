//===- TosaEvaluator.h - TOSA ops that move elements ------------*- C++ -*-===//
#ifndef KERF_UNITTESTS_MODELS_TOSAEVALUATOR_H
#define KERF_UNITTESTS_MODELS_TOSAEVALUATOR_H

#include "kerf/Interpret/Interpret.h"

namespace kerf::test {

/// Slices, pads, tiles, reverses, gathers, scatters, pools and convolutions by
/// channel or volume, whose zero points are 0; none: another op. For
/// LoopEvaluator.cpp.
std::optional<interpret::Tensor>
evaluateTosaMoves(mlir::Operation *op,
                  llvm::ArrayRef<const interpret::Tensor *> operands);

} // namespace kerf::test

#endif // KERF_UNITTESTS_MODELS_TOSAEVALUATOR_H
