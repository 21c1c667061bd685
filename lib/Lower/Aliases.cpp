//===- Aliases.cpp - values that need no memory of their own --------------===//
//
// See Units.h.
//
//===----------------------------------------------------------------------===//
#include "Units.h"

#include "OpKinds.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

bool kerf::isInline(Operation *op) {
  if (isa<nn::IotaOp>(op))
    return true;
  auto constant = dyn_cast<nn::ConstantOp>(op);
  return constant && (constant.getElements().isSplat() ||
                      exec::sizeBytes(constant.getResult().getType()) <=
                          kMaxInlineConstantBytes);
}

bool kerf::isElementwise(Operation *op) {
  auto cost = dyn_cast_or_null<OpCostInterface>(op);
  return cost && op->getNumResults() == 1 &&
         isa<nn::NNDialect>(op->getDialect()) &&
         cost.getCostClass() == CostClass::Elementwise &&
         !isa<nn::PhiloxOp, nn::DropoutOp>(op) &&
         !op->hasAttr(exec::kUpdateMark);
}

bool kerf::isAlias(Operation *op) {
  if (isa<nn::ReshapeOp>(op))
    return true;
  auto slice = dyn_cast<nn::SliceOp>(op);
  if (!slice)
    return false;
  RankedTensorType from = slice.getX().getType(),
                   to = slice.getResult().getType();
  Dims strides = denseStrides(from.getShape());
  int64_t offset = 0;
  bool whole = true; // every dimension so far (from the last) is taken whole
  for (int64_t d = from.getRank() - 1; d >= 0; --d) {
    offset += slice.getStarts()[d] * strides[d];
    if (to.getDimSize(d) > 1 && slice.getStrides()[d] != 1)
      return false;
    if (!whole && to.getDimSize(d) != 1)
      return false;
    whole &= to.getDimSize(d) == from.getDimSize(d);
  }
  return offset * exec::elementBytes(from.getElementType()) %
             exec::bufferAlignment ==
         0;
}

bool kerf::isReadByUpdate(Operation *view) {
  Operation *user = *view->user_begin();
  while (isa<nn::ReshapeOp>(user) && !user->use_empty())
    user = *user->user_begin();
  return user->hasAttr(exec::kUpdateMark);
}

void kerf::mergeViews(Block &block) {
  DenseMap<std::tuple<Value, Attribute, Type>, Operation *> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto slice = dyn_cast<nn::SliceOp>(op);
    if (!slice || op.use_empty() || !isAlias(slice) || !isReadByUpdate(slice))
      continue;
    auto [it, added] = known.try_emplace(
        {slice.getX(), op.getAttrDictionary(), slice.getType()}, slice);
    if (added)
      continue;
    op.replaceAllUsesWith(it->second);
    op.erase();
  }
}
