//===- Casts.cpp - roundings that lowering decides on ---------------------===//
//
// See undoCasts and widenProducts in Simplify.h. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Simplify.h"

#include "kerf/Interfaces/AsMade.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isFloat(Value value) {
  return isa<FloatType>(typeOf(value).getElementType());
}

static unsigned width(Value value) {
  return typeOf(value).getElementTypeBitWidth();
}

/// What a cast of a cast gives if the two undo each other.
static Value undone(nn::CastOp cast) {
  auto first = cast.getX().getDefiningOp<nn::CastOp>();
  if (!first || first.getX().getType() != cast.getType() ||
      !isFloat(cast.getResult()) || !isFloat(first.getResult()))
    return {};
  bool widened = width(first.getResult()) > width(first.getX());
  return widened || takesAsMade(first) ? first.getX() : Value();
}

/// A product of float16 on a CPU: of operands that are rounded and wide again.
static void widenProduct(Operation *op) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  Type wide = builder.getF32Type();
  for (OpOperand &operand : op->getOpOperands())
    operand.set(nn::CastOp::create(
        builder, loc, typeOf(operand.get()).clone(wide), operand.get()));
  Value result = op->getResult(0);
  RankedTensorType narrow = typeOf(result);
  result.setType(narrow.clone(wide));
  builder.setInsertionPointAfter(op);
  // What is wanted in float32 is not rounded in between, as on GPUs.
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses())
    uses.push_back(&use);
  Value rounded;
  for (OpOperand *use : uses) {
    auto cast = dyn_cast<nn::CastOp>(use->getOwner());
    if (cast && cast.getType() == result.getType()) {
      cast.replaceAllUsesWith(result);
      cast.erase();
      continue;
    }
    if (!rounded)
      rounded = nn::CastOp::create(builder, loc, narrow, result);
    use->set(rounded);
  }
}

void kerf::undoCasts(func::FuncOp function) {
  Block &body = function.getBody().front();
  for (auto cast : llvm::make_early_inc_range(body.getOps<nn::CastOp>()))
    if (Value value = undone(cast)) {
      cast.replaceAllUsesWith(value);
      cast.erase();
    }
  for (auto cast : body.getOps<nn::CastOp>())
    cast->removeAttr(kAsMade);
}

void kerf::widenProducts(func::FuncOp function) {
  SmallVector<Operation *> products;
  for (Operation &op : function.getBody().front())
    if (isa<nn::MatmulOp, nn::ConvOp>(op) &&
        typeOf(op.getResult(0)).getElementType().isF16())
      products.push_back(&op);
  for (Operation *op : products)
    widenProduct(op);
}
