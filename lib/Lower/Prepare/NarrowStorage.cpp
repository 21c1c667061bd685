//===- NarrowStorage.cpp - products stored in 16 bits ---------------------===//
//
// What kerf/Fusion/StoredNarrow.h finds is rounded to 16 bits where a call
// stores it, and widened where it is read. Gradients of weights and what leaves
// the function stay wide. Asks for casts to the type in which a value travels,
// so it comes before kerf-drop-transfer-casts. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../Library/Strides.h"
#include "../OpKinds.h"

#include "kerf/Fusion/StoredNarrow.h"
#include "kerf/Interfaces/TransferCast.h"

namespace kerf {
#define GEN_PASS_DEF_NARROWSTORAGE
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
struct Answers : NarrowQuestions {
  ProductKind kindOf(Operation *op) const override {
    return isa<nn::MatmulOp>(op)              ? ProductKind::Matmul
           : isa<nn::ConvOp>(op)              ? ProductKind::Convolution
           : isa<nn::ConvInputGradientOp>(op) ? ProductKind::InputGradient
                                              : ProductKind::None;
  }
  bool isCast(Operation *op) const override {
    auto cast = dyn_cast<nn::CastOp>(op);
    return cast && !isTransferCast(cast);
  }
  bool isMove(Operation *op) const override {
    return isa<nn::CastOp>(op) || isShapeOp(op) ||
           isa<dist::DistDialect>(op->getDialect());
  }
  bool readsAnyType(OpOperand &read) const override {
    Operation *op = read.getOwner();
    return isa<nn::NNDialect>(op->getDialect()) &&
           !op->hasAttr(exec::kUpdateMark);
  }
  // It reads a cast.
  bool isRounded(OpOperand &) const override { return false; }
};
} // namespace

/// `operand` rounded to `narrow` and widened again.
static void roundOperand(OpOperand &operand, Type narrow) {
  dist::ReplacingBuilder builder(operand.getOwner());
  Location loc = operand.getOwner()->getLoc();
  Value value = operand.get();
  RankedTensorType type = typeOf(value);
  Value there = nn::CastOp::create(builder, loc, type.clone(narrow), value);
  operand.set(nn::CastOp::create(builder, loc, type, there));
}

static void storeNarrow(func::FuncOp function) {
  Answers answers;
  SmallVector<Operation *> products;
  for (Operation &op : function.getBody().front())
    if (answers.kindOf(&op) != ProductKind::None)
      products.push_back(&op);
  for (Operation *op : products) {
    StoredNarrow stored = findStoredNarrow(op, answers);
    Value value = stored.end;
    if (!value)
      continue;
    if (stored.isProduct) {
      op->setAttr(exec::kStoredMark, UnitAttr::get(op->getContext()));
      continue; // it is in 16 bits
    }
    Type narrow = typeOf(op->getResult(0)).getElementType();
    for (OpOperand *addend : stored.addends)
      roundOperand(*addend, narrow);
    dist::ReplacingBuilder builder(value.getDefiningOp());
    builder.setInsertionPointAfterValue(value);
    RankedTensorType type = typeOf(value);
    auto there =
        nn::CastOp::create(builder, value.getLoc(), type.clone(narrow), value);
    Value back = nn::CastOp::create(builder, value.getLoc(), type, there);
    value.replaceAllUsesExcept(back, there);
  }
}

namespace {
struct NarrowStorage : kerf::impl::NarrowStorageBase<NarrowStorage> {
  void runOnOperation() override {
    if (!getOperation().isExternal() &&
        exec::TargetAttr::of(getOperation()).getMemoryBound())
      storeNarrow(getOperation());
  }
};
} // namespace
