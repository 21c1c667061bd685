//===- AtLoad.cpp - ops that depend on parameters alone -------------------===//
#include "kerf/Fusion/ComputedTwice.h"
#include "kerf/Fusion/Groups.h"
#include "kerf/Fusion/KeptValues.h"
#include "kerf/Interfaces/AnyOp.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

/// Whether the op reads no memory of size: it counts places, or is one number.
static bool isLeaf(Operation *op) {
  auto type = op->getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                  : RankedTensorType();
  if (!type || op->getNumOperands() > 0)
    return false;
  return !isa<SourceOpInterface>(op) || type.getNumElements() == 1;
}

/// The ops of `atLoad` whose result is a whole number or a truth that follows
/// from where an element is, by a few operations: the number of an element in a
/// tensor, from which dropout draws; whether it is padding.
static DenseSet<Operation *> findPlaces(Block &block,
                                        const DenseSet<Operation *> &atLoad) {
  DenseSet<Operation *> places;
  for (Operation &op : block.without_terminator()) {
    if (!atLoad.contains(&op))
      continue;
    bool isWhole = op.getNumResults() == 1 &&
                   getElementTypeOrSelf(op.getResult(0)).isIntOrIndex();
    bool isOfPlaces = op.getNumOperands() > 0 &&
                      (isCheapByElement(&op) || movesOrCasts(&op)) &&
                      llvm::all_of(op.getOperands(), [&](Value operand) {
                        return places.contains(operand.getDefiningOp());
                      });
    if (isWhole && (isLeaf(&op) || isOfPlaces))
      places.insert(&op);
  }
  return places;
}

DenseSet<Operation *>
kerf::findAtLoad(Block &block, llvm::function_ref<bool(Operation *)> isConstant,
                 llvm::function_ref<bool(Operation *)> isShapeOp) {
  DenseSet<Operation *> atLoad;
  for (Operation &op : block.without_terminator())
    if (isConstant(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 atLoad.contains(operand.getDefiningOp());
        }))
      atLoad.insert(&op);
  auto isElse = [&](Operation *user) { return !atLoad.contains(user); };
  DenseSet<Operation *> places = findPlaces(block, atLoad);
  // What is read at load, too, is there anyway.
  auto computesInside = [&](Operation *user) {
    auto cost = dyn_cast<OpCostInterface>(user);
    return isElse(user) &&
           (places.contains(user) ||
            (cost && cost.getCostClass() == CostClass::Elementwise));
  };
  for (Operation &op : llvm::reverse(block))
    if (llvm::any_of(op.getUsers(), isElse) &&
        (isShapeOp(&op) ||
         (places.contains(&op) && !isa<SourceOpInterface>(op) &&
          llvm::all_of(op.getUsers(), computesInside))))
      atLoad.erase(&op);
  return atLoad;
}
