//===- Precision.cpp - contractions in bfloat16 ---------------------------===//
//
// --precision=bf16: operands of matrix products and convolutions are rounded to
// bfloat16, products are summed in float32 (libraries do), and results go on in
// float32, as do all other ops, gradients, weights and what optimizers
// remember. Done before anything is differentiated, so the backward pass rounds
// the same operands: the vector-Jacobian product of a cast is a cast.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

void Step::lowerPrecision() {
  if (!options.bf16)
    return;
  OpBuilder::InsertionGuard guard(ops);
  Type narrow = ops.getBF16Type(), wide = ops.getF32Type();
  // One rounding per value, however many ops read it.
  llvm::DenseMap<Value, Value> rounded;
  for (Operation &op :
       llvm::make_early_inc_range(body().without_terminator())) {
    if (!isa<nn::MatmulOp, nn::ConvOp>(op) ||
        !llvm::all_of(op.getOperandTypes(), [&](Type type) {
          return cast<RankedTensorType>(type).getElementType() == wide;
        }))
      continue;
    GradientBuilder b = at(op.getLoc());
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      Value &known = rounded[value];
      if (!known) {
        ops.setInsertionPoint(&op);
        known = b.make<nn::CastOp>(
            cast<RankedTensorType>(value.getType()).clone(narrow), value);
      }
      operand.set(known);
    }
    Value result = op.getResult(0);
    auto type = cast<RankedTensorType>(result.getType());
    result.setType(type.clone(narrow));
    ops.setInsertionPointAfter(&op);
    Value widened = b.make<nn::CastOp>(type, result);
    result.replaceAllUsesExcept(widened, widened.getDefiningOp());
  }
}
