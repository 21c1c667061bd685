//===- Epilogue.cpp - what a library does behind a product ----------------===//
#include "kerf/Fusion/Epilogue.h"

#include "llvm/Support/ErrorHandling.h"

using namespace kerf;

bool FixedEpilogue::takes(EpilogueStep step, StepOperand operand) const {
  if (isClosed)
    return false;
  switch (step) {
  case EpilogueStep::Some:
    return true;
  case EpilogueStep::None:
  case EpilogueStep::Sub:
  case EpilogueStep::Tanh:
  case EpilogueStep::Sigmoid:
  case EpilogueStep::Abs:
  case EpilogueStep::GeluErf:
    return false;
  case EpilogueStep::Add:
    return operand == StepOperand::PerColumn ? !factor && !bias && !addend
           : operand == StepOperand::Whole   ? !addend
                                             : false;
  case EpilogueStep::Normalize: // its factor is in the weights
    return !bias && !addend;
  case EpilogueStep::Mul:
  case EpilogueStep::Div:
  case EpilogueStep::Neg:
    return isMatmul && !bias && !addend &&
           (operand == StepOperand::Number || step == EpilogueStep::Neg);
  case EpilogueStep::Relu:
    return true;
  case EpilogueStep::GeluTanh:
    return isMatmul;
  case EpilogueStep::GeluTanhGradient:
    return isMatmul && isEmpty() && operand == StepOperand::Whole;
  }
  llvm_unreachable("all steps are handled");
}

void FixedEpilogue::add(EpilogueStep step, StepOperand operand) {
  assert(takes(step, operand) && "no such step is left");
  switch (step) {
  case EpilogueStep::Some:
    return;
  case EpilogueStep::Add:
    (operand == StepOperand::PerColumn ? bias : addend) = true;
    return;
  case EpilogueStep::Normalize:
    bias = true;
    return;
  case EpilogueStep::Mul:
  case EpilogueStep::Div:
  case EpilogueStep::Neg:
    factor = true;
    return;
  default:
    isClosed = true;
  }
}
