//===- Updates.cpp - what the ops of training ask of their operands -------===//
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

/// C1 and C2 of every update: tensors of one type, then scalars.
static LogicalResult verifyUpdate(Operation *op, unsigned numScalars) {
  Type expected = op->getOperand(0).getType();
  unsigned numTensors = op->getNumOperands() - numScalars;
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes())) {
    if (index < numTensors && type != expected)
      return op->emitOpError("operand ")
             << index << " has type " << type << ", expected " << expected;
    if (index >= numTensors && cast<RankedTensorType>(type).getRank() != 0)
      return op->emitOpError("operand ")
             << index << " has type " << type << ", expected a scalar";
  }
  for (auto [index, type] : llvm::enumerate(op->getResultTypes()))
    if (type != expected)
      return op->emitOpError("result ")
             << index << " has type " << type << ", expected " << expected;
  return success();
}

LogicalResult DropoutOp::verify() {
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio <= 1))
    return emitOpError("ratio is ") << ratio << ", expected 0 to 1";
  if (getX().getType() != getResult().getType())
    return emitOpError("result has type ")
           << getResult().getType() << ", expected " << getX().getType();
  return success();
}

LogicalResult SGDUpdateOp::verify() {
  if (static_cast<bool>(getVelocity()) != static_cast<bool>(getNewVelocity()))
    return emitOpError("has ")
           << (getVelocity() ? "a velocity and no new one"
                             : "a new velocity and no old one");
  if (getNesterov() && !getVelocity())
    return emitOpError("is nesterov without velocity");
  return verifyUpdate(getOperation(), 1);
}

LogicalResult AdamUpdateOp::verify() { return verifyUpdate(getOperation(), 3); }

LogicalResult AdagradUpdateOp::verify() {
  return verifyUpdate(getOperation(), 1);
}
