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

/// An epilogue of any steps, as far as it is used (oneDNN). It has at most
/// kMaxSteps of them, the library's limit, and reads at most kMaxTensors whole
/// tensors: the call waits for all of them, and they for it in memory. So a sum
/// of many products is several calls that hand on what is summed up, and not
/// one that reads all other products at once.
class ChainEpilogue {
public:
  bool takes(StepOperand operand) const {
    return steps < kMaxSteps &&
           (operand != StepOperand::Whole || tensors < kMaxTensors);
  }
  void add(StepOperand operand) {
    ++steps;
    tensors += operand == StepOperand::Whole;
  }

private:
  /// post_ops_t::post_ops_limit of oneDNN 3.
  static constexpr int kMaxSteps = 32, kMaxTensors = 2;
  int steps = 0, tensors = 0;
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
