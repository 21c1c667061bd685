//===- Updates.cpp - interfaces of optimizer updates ----------------------===//
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

LogicalResult nn::verifyUpdate(Operation *op, unsigned numScalars) {
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

LogicalResult nn::verifyVelocity(Operation *op, Value velocity, Value next,
                                 bool nesterov) {
  if (static_cast<bool>(velocity) != static_cast<bool>(next))
    return op->emitOpError("has ")
           << (velocity ? "a velocity and no new one"
                        : "a new velocity and no old one");
  if (nesterov && !velocity)
    return op->emitOpError("is nesterov without velocity");
  return success();
}
