//===- MovePurpose.cpp - what a move is for -------------------------------===//
#include "kerf/Dist/MovePurpose.h"

#include "kerf/Interfaces/KerfDialect.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

/// Whether an op changes nothing but the type of floats.
static bool isFloatCast(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  auto from = dyn_cast<RankedTensorType>(op->getOperandTypes()[0]);
  auto to = dyn_cast<RankedTensorType>(op->getResultTypes()[0]);
  return from && to && from.getShape() == to.getShape() &&
         from.getElementType() != to.getElementType() &&
         isa<FloatType>(from.getElementType()) &&
         isa<FloatType>(to.getElementType());
}

/// Whether an op is a parameter, or makes a copy of one in another type.
static bool isParameter(Operation *op) {
  if (auto source = dyn_cast<SourceOpInterface>(op))
    return source.isParameter();
  Operation *def =
      isFloatCast(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return def && isParameter(def);
}

PurposeAttr dist::purposeOfOperands(Operation *user) {
  PurposeAttr own = getPurpose(user);
  return own && own.getValue() == Purpose::Statistics ? PurposeAttr() : own;
}

PurposeAttr dist::movePurpose(Operation *producer, Operation *user) {
  if (PurposeAttr own = producer ? getPurpose(producer) : PurposeAttr())
    return own;
  if (PurposeAttr wanted = user ? purposeOfOperands(user) : PurposeAttr())
    return wanted;
  if (!producer)
    return PurposeAttr();
  if (getPhase(producer) == Phase::BackwardWeight)
    return PurposeAttr::get(producer->getContext(), Purpose::Gradient);
  auto assign = dyn_cast_or_null<AssignOp>(user);
  Operation *assigned = assign ? assign.getSource().getDefiningOp() : nullptr;
  return isParameter(producer) || (assigned && isParameter(assigned))
             ? PurposeAttr::get(producer->getContext(), Purpose::Parameter)
             : PurposeAttr();
}
