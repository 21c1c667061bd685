//===- StoredNarrow.cpp - products stored in 16 bits ----------------------===//
#include "kerf/Fusion/StoredNarrow.h"

#include "kerf/Fusion/Epilogue.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Support/Preconditions.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace kerf;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Whether there is one element per column of `type`, as in a bias.
static bool isPerColumn(Value value, RankedTensorType type) {
  RankedTensorType own = typeOf(value);
  return own.getRank() > 0 && type.getRank() > 0 &&
         own.getNumElements() == type.getShape().back() &&
         own.getShape().back() == type.getShape().back();
}

/// Whether an operand of the product is a parameter: an addend per column is
/// then a bias. A mask on the scores of attention may be as low as f32's lowest
/// number, and must not become infinite.
static bool hasWeight(Operation *product, const NarrowQuestions &questions) {
  return llvm::any_of(product->getOperands(), [&](Value value) {
    Operation *op = value.getDefiningOp();
    while (op && op->getNumOperands() == 1 && questions.isMove(op))
      op = op->getOperand(0).getDefiningOp();
    return isa_and_nonnull<SourceOpInterface>(op);
  });
}

/// Whether all that read the value, also in another order or place, compute in
/// their own types from what is stored.
static bool isReadInAnyType(Value value, const NarrowQuestions &questions) {
  return !value.use_empty() &&
         llvm::all_of(value.getUses(), [&](OpOperand &read) {
           Operation *op = read.getOwner();
           bool isShown = questions.isMove(op) && op->getNumResults() == 1 &&
                          read.getOperandNumber() == 0 &&
                          typeOf(op->getResult(0)).getElementType() ==
                              typeOf(value).getElementType();
           return questions.readsAnyType(read) &&
                  (!isShown || isReadInAnyType(op->getResult(0), questions));
         });
}

StoredNarrow kerf::findStoredNarrow(Operation *product,
                                    const NarrowQuestions &questions) {
  ProductKind kind = questions.kindOf(product);
  if (kind == ProductKind::None || product->getNumResults() != 1)
    return {};
  Value result = product->getResult(0);
  if (typeOf(result).getElementTypeBitWidth() != 16 || !result.hasOneUse())
    return {};
  Operation *widened = *result.user_begin();
  if (!questions.isCast(widened) ||
      !typeOf(widened->getResult(0)).getElementType().isF32())
    return {};
  StoredNarrow stored;
  Value value = widened->getResult(0);
  RankedTensorType type = typeOf(value);
  auto addTo = [&](bool perColumn) {
    Operation *add =
        value.hasOneUse() && !questions.isRounded(*value.use_begin())
            ? *value.user_begin()
            : nullptr;
    if (!add || epilogueStepOf(add) != EpilogueStep::Add ||
        add->getResult(0).getType() != type)
      return false;
    OpOperand &other = add->getOpOperand(add->getOperand(0) == value ? 1 : 0);
    if (perColumn ? !isPerColumn(other.get(), type)
                  : other.get().getType() != type)
      return false;
    stored.addends.push_back(&other);
    value = add->getResult(0);
    return true;
  };
  Operation *slope = value.hasOneUse() ? *value.user_begin() : nullptr;
  bool isGradient = slope && kind == ProductKind::Matmul &&
                    epilogueStepOf(slope) == EpilogueStep::GeluTanhGradient &&
                    slope->getOperand(0) == value &&
                    slope->getResult(0).getType() == type;
  if (isGradient)
    value = slope->getResult(0);
  bool isForward = !isGradient && kind != ProductKind::InputGradient;
  if (isForward &&
      holds(product, Precondition::AddendIsBias, hasWeight(product, questions)))
    addTo(/*perColumn=*/true);
  // Sums of transformers' blocks stay wide, as they are without rounding.
  if (isForward && addTo(/*perColumn=*/false) && kind == ProductKind::Matmul)
    return {};
  if (isForward && value.hasOneUse()) {
    EpilogueStep step = epilogueStepOf(*value.user_begin());
    if (step == EpilogueStep::Relu ||
        (step == EpilogueStep::GeluTanh && kind == ProductKind::Matmul))
      value = (*value.user_begin())->getResult(0);
  }
  if (!isReadInAnyType(value, questions))
    return {};
  stored.end = value;
  stored.isProduct = value.getDefiningOp() == widened;
  return stored;
}
