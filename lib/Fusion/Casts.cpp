//===- Casts.cpp - casts that undo each other; see Casts.h ----------------===//
#include "kerf/Fusion/Casts.h"

#include "kerf/Fusion/KeptValues.h"
#include "kerf/Interfaces/TransferCast.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace kerf;

static Type elementOf(Value value) {
  return getElementTypeOrSelf(value.getType());
}

bool kerf::isFloatCast(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      !movesOrCasts(op))
    return false;
  Type from = elementOf(op->getOperand(0)), to = elementOf(op->getResult(0));
  return from != to && isa<FloatType>(from) && isa<FloatType>(to);
}

std::optional<UndoneCast>
kerf::findUndoneCast(Operation *cast,
                     llvm::function_ref<Between(OpOperand *&)> between) {
  if (!isFloatCast(cast))
    return std::nullopt;
  UndoneCast undone;
  for (OpOperand *operand = &cast->getOpOperand(0);;) {
    Between kind = between(operand);
    if (kind == Between::Barrier)
      return std::nullopt;
    undone.first = operand->get().getDefiningOp();
    if (kind == Between::Maker)
      break;
    if (kind == Between::Move)
      undone.moves.push_back(undone.first);
    operand = &undone.first->getOpOperand(0);
  }
  Operation *first = undone.first;
  if (!first || !isFloatCast(first) ||
      elementOf(first->getOperand(0)) != elementOf(cast->getResult(0)))
    return std::nullopt;
  bool widened = elementOf(first->getResult(0)).getIntOrFloatBitWidth() >
                 elementOf(first->getOperand(0)).getIntOrFloatBitWidth();
  if (!widened && !(isTransferCast(first) && undone.moves.empty()))
    return std::nullopt;
  return undone;
}
