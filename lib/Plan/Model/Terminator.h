//===- Terminator.h - the end of a block ------------------------*- C++ -*-===//
//
// Asked of every user of every value. Whether a class of op is a terminator is
// a search through its traits, and few ops are the last of their block.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_TERMINATOR_H
#define KERF_LIB_PLAN_MODEL_TERMINATOR_H

#include "mlir/IR/Operation.h"

namespace kerf::plan {

inline bool isTerminator(mlir::Operation *op) {
  return !op->getNextNode() && op->hasTrait<mlir::OpTrait::IsTerminator>();
}

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_TERMINATOR_H
