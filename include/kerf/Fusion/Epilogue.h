//===- Epilogue.h - what a library does behind a product --------*- C++ -*-===//
//
// Problem: some libraries compute any steps behind a product before they store
// it, others one of each kind in an order of their own. Lowering forms the
// calls, and planning must know which values that leaves in memory.
//
// Idea: ops say which step they are (EpilogueStep); which steps a library of
// the second kind has is said here, and both ask.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_EPILOGUE_H
#define KERF_FUSION_EPILOGUE_H

#include "kerf/Interfaces/AnyOp.h"

namespace kerf {

/// Of an op without costs none.
inline EpilogueStep epilogueStepOf(mlir::Operation *op) {
  auto costed = mlir::dyn_cast<OpCostInterface>(op);
  if (!costed)
    return EpilogueStep::None;
  EpilogueStep step = costed.getEpilogueStep();
  bool isSome = step == EpilogueStep::None &&
                costed.getLibraryWork() == LibraryWork::Epilogue;
  return isSome ? EpilogueStep::Some : step;
}

/// The second tensor of a step, beside the result so far.
enum class StepOperand {
  None,
  Number,    ///< one constant number
  PerColumn, ///< one element for each column of the result
  Whole,     ///< one for each element of it
  Other,
};

/// A library's fixed epilogue, as far as it is used: a factor, a bias, an
/// addend, an activation (cuBLASLt), without the factor and with relu alone
/// (cuDNN).
class FixedEpilogue {
public:
  explicit FixedEpilogue(bool isMatmul) : isMatmul(isMatmul) {}

  bool takes(EpilogueStep step, StepOperand operand) const;
  /// Uses a step that it takes.
  void add(EpilogueStep step, StepOperand operand);
  bool hasAddend() const { return addend; }
  /// Whether no step is used.
  bool isEmpty() const { return !factor && !bias && !addend && !isClosed; }

private:
  bool isMatmul;
  bool factor = false, bias = false, addend = false;
  bool isClosed = false; ///< nothing can be behind an activation
};

} // namespace kerf

#endif // KERF_FUSION_EPILOGUE_H
