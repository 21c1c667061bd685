//===- Prepare.cpp - shared by the passes of this folder ------------------===//
#include "Prepare.h"

#include "../Parameters.h"

using namespace mlir;
using namespace kerf;

void kerf::forEachOp(func::FuncOp function,
                     function_ref<void(Operation *)> visit) {
  if (function.isExternal())
    return;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
    visit(&op);
}

Value kerf::splatConstant(OpBuilder &builder, Location loc,
                          RankedTensorType type, Attribute number) {
  return nn::ConstantOp::create(
      builder, loc, cast<ElementsAttr>(DenseElementsAttr::get(type, number)));
}

Value kerf::splatConstant(OpBuilder &builder, Location loc,
                          RankedTensorType type, double number) {
  return splatConstant(builder, loc, type,
                       FloatAttr::get(type.getElementType(), number));
}

bool kerf::isComputedAtLoad(Value value) {
  SmallVector<Value> stack = {value};
  for (int steps = 0; !stack.empty(); ++steps) {
    Operation *op = stack.pop_back_val().getDefiningOp();
    if (!op || !isa<nn::NNDialect>(op->getDialect()) || steps > 32 ||
        isMutableSource(op))
      return false;
    llvm::append_range(stack, op->getOperands());
  }
  return true;
}
