//===- AtLoad.cpp - ops that depend on parameters alone -------------------===//
#include "kerf/Fusion/Groups.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

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
  for (Operation &op : llvm::reverse(block))
    if (isShapeOp(&op) && llvm::any_of(op.getUsers(), isElse))
      atLoad.erase(&op);
  return atLoad;
}
