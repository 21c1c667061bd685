//===- Overwritten.cpp - which input a kernel writes over -----------------===//
//
// Lowering writes the result of a kernel over an input that nobody reads any
// more (kerf-work-in-place), also one that another function of the stage left
// in a slot. The choice among inputs is lowering's (kerf/Fusion/Groups.h).
//
//===----------------------------------------------------------------------===//
#include "../Model/Terminator.h"
#include "StageMemory.h"

#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/Groups.h"
#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <functional>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Whether the kernel of `def` reads elements of the input only where it writes
/// the same element: none is moved on the way, or read elsewhere.
bool StageMemory::readsInOrder(Operation *def, Value input) const {
  llvm::SmallPtrSet<Operation *, 16> seen[2]; // without and with a move between
  SmallVector<std::pair<Operation *, bool>> stack = {{def, false}};
  while (!stack.empty()) {
    auto [op, isMoved] = stack.pop_back_val();
    isMoved |= readsElsewhere(op) || (movesOrCasts(op) && !isFloatCast(op));
    // A row is read before any of its elements is written: what is made of all
    // of it may be repeated along it.
    if (classOf(op) == CostClass::Row && !readsElsewhere(op))
      isMoved = false;
    if (!seen[isMoved].insert(op).second)
      continue;
    for (Value operand : op->getOperands()) {
      Value root = rootOf(operand);
      if (root == input && isMoved)
        return false;
      if (Operation *maker = root.getDefiningOp();
          maker && orderOf(def).isTogether(def, maker))
        stack.push_back({maker, isMoved});
    }
  }
  return true;
}

/// The input over which the kernel of `def` may write: one of the same size
/// that nothing reads afterwards; null if there is none.
Value StageMemory::overwritten(Operation *def, int64_t time,
                               int64_t bytes) const {
  if (orderOf(def).isCall(def))
    return {};
  // What another function has made is in a slot, or its kernels' readers here
  // compute it again of what is.
  auto isRepeated = [&](Operation *maker) {
    return functionOf(maker) != functionOf(def) && isHere(maker) &&
           maker->getNumOperands() == 1 && movesOrCasts(maker) &&
           !kept.count(rootOf(maker->getResult(0)));
  };
  SmallVector<Value> inputs;
  for (Operation *op : orderOf(def).togetherWith(def))
    for (Value operand : op->getOperands()) {
      Value root = rootOf(operand);
      Operation *maker = root.getDefiningOp();
      for (; maker && isRepeated(maker); maker = root.getDefiningOp())
        root = rootOf(maker->getOperand(0));
      if (maker && !orderOf(def).isTogether(def, maker))
        inputs.push_back(root);
    }
  llvm::SetVector<Value> seen(inputs.begin(), inputs.end());
  inputs = seen.takeVector();
  std::function<bool(Value)> isLast = [&](Value value) {
    Operation *maker = rootOf(value).getDefiningOp();
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (isTerminator(user) || !isHere(user))
        return false;
      if (isView(user))
        return true;
      // What is kept in a slot was read before where it was made.
      if (functionOf(maker) != functionOf(def) &&
          functionOf(user) == functionOf(maker))
        return !isRepeated(user) || isLast(user->getResult(0));
      return functionOf(user) == functionOf(def) &&
             llvm::all_of(orderOf(user).readTimesOf(maker, user),
                          [&](int64_t read) { return kTicks * read <= time; });
    });
  };
  auto diesHere = [&](Value root) {
    Operation *maker = root.getDefiningOp();
    return !isa<SourceOpInterface>(maker) && !isConstant(maker) &&
           isHere(maker) &&
           (functionOf(maker) == functionOf(def)
                ? !kept.count(root) && heldBytes(root) == bytes
                : kept.lookup(root).bytes == bytes) &&
           isLast(root) && llvm::all_of(aliases.lookup(root), isLast);
  };
  auto mayShare = [&](unsigned number) {
    CostClass kind = classOf(def);
    return (kind == CostClass::Elementwise || kind == CostClass::Row) &&
           readsInOrder(def, inputs[number]);
  };
  auto memoryOf = [](Value root) { return root; };
  int64_t chosen =
      chooseOverwritten(inputs, {memoryOf, diesHere, mayShare}, given);
  return chosen < 0 ? Value() : inputs[chosen];
}
