//===- Joins.cpp - concatenations that lowering does not compute ----------===//
//
// Which concatenations of a function are joins (kerf/Fusion/Joins.h), and which
// of their parts lie in them from the time at which they are made, as
// lowering's kerf-join-parts and kerf-write-in-place have it. A join is a group
// of its own; it reads the parts that are not written in their places.
//
// Linear in the ops of the function, where it has a concatenation.
//
//===----------------------------------------------------------------------===//
#include "FusionAnswers.h"
#include "StageMemory.h"

#include "kerf/Fusion/Joins.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// The dimension along which an op joins at least two parts; -1: it does not.
static int64_t joinedDim(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed && op->getNumOperands() > 1 ? costed.getJoinedDim() : -1;
}

DenseSet<Value> FunctionAnswers::findCallResults(Block &block) const {
  DenseSet<Value> ends;
  DenseSet<Operation *> taken;
  for (Operation &op : block)
    if (roleOf(&op) == Role::Call) {
      SmallVector<Operation *> ops = opsOfCall(
          &op, *this, [&](Operation *next) { return taken.contains(next); });
      taken.insert_range(ops);
      ends.insert_range(ops.back()->getResults());
    }
  return ends;
}

bool FunctionAnswers::isComputed(OpOperand &read) const {
  Operation *maker = makerOf(read);
  if (!maker || isApart(read))
    return false;
  Role role = roleOf(maker);
  return role == Role::Kernel || role == Role::Call;
}

bool FunctionAnswers::isJoin(Operation *op,
                             const DenseSet<Value> &ofCalls) const {
  int64_t dim = joinedDim(op);
  if (dim < 0 || roleOf(op) != Role::Kernel || op->use_empty())
    return false;
  ArrayRef<int64_t> shape = function.localType(op->getResult(0)).getShape();
  auto numParts = static_cast<int64_t>(op->getNumOperands());
  if (llvm::is_contained(shape, 0) ||
      !(isOutermost(shape, dim) || isStoredOutermost(shape, dim, numParts)))
    return false;
  // What is sent is there as one from the concatenation on.
  for (OpOperand *read : readsOf(op))
    if (isApart(*read))
      return false;
  SmallVector<JoinedPart> parts;
  for (OpOperand &read : op->getOpOperands()) {
    Value value = memoryOf(read.get());
    parts.push_back({function.bytes(value), isComputed(read),
                     !value.hasOneUse() || ofCalls.contains(value)});
  }
  return paysToJoin(parts, kAlignment);
}

void FunctionAnswers::findJoins(Block &block) {
  SmallVector<Operation *> concats;
  for (Operation &op : block)
    if (joinedDim(&op) >= 0)
      concats.push_back(&op);
  if (concats.empty())
    return;
  DenseSet<Value> ofCalls = findCallResults(block);
  for (Operation *concat : concats) {
    if (!isJoin(concat, ofCalls))
      continue;
    int64_t bytes = 0;
    for (OpOperand &read : concat->getOpOperands()) {
      Value value = memoryOf(read.get());
      bool isPlace = bytes % kAlignment == 0;
      bytes += function.bytes(value);
      if (isPlace && isComputed(read) && !function.isKept(value))
        places.try_emplace(value, concat->getResult(0));
    }
    joins.insert(concat);
  }
}
