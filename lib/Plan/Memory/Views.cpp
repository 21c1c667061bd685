//===- Views.cpp - ops that planning sees through; see Views.h ------------===//
#include "Views.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

Views::Views(Block &block, const ViewQuestions &questions) {
  for (Operation &op : block)
    if (questions.isView(&op))
      seen[&op] = &op.getOpOperand(0);
  for (Operation &op : block)
    findUndone(&op, questions);
  // A cast all of whose readers undo it is never computed: its readers read
  // what it is made of.
  SmallVector<Operation *> unread;
  for (auto &[cast, others] : undoneBy)
    if (isOnlyUndone(cast))
      unread.push_back(cast);
  for (Operation *cast : unread)
    seen[cast] = &cast->getOpOperand(0);
}

void Views::findUndone(Operation *cast, const ViewQuestions &questions) {
  auto isMove = [](Operation *op) {
    return op->getNumOperands() == 1 && movesOrCasts(op) &&
           getElementTypeOrSelf(op->getOperand(0)) ==
               getElementTypeOrSelf(op->getResult(0));
  };
  auto between = [&](OpOperand *&operand) {
    Operation *def = operand->get().getDefiningOp();
    auto isOpen = [&] {
      return def && !questions.moves(*operand) &&
             questions.areTogether(def, cast);
    };
    // Casts are undone in the order of the program.
    for (; isOpen() && isFloatCast(def) && contains(def);
         def = operand->get().getDefiningOp())
      operand = seenBy(def);
    if (!isOpen())
      return Between::Barrier;
    if (isa<dist::AccumulateOp>(def))
      return contains(def) ? Between::Nothing : Between::Barrier;
    return isMove(def) ? Between::Move : Between::Maker;
  };
  std::optional<UndoneCast> undone = findUndoneCast(cast, between);
  if (!undone || questions.moves(undone->first->getOpOperand(0)))
    return;
  bool areViews = llvm::all_of(undone->moves,
                               [&](Operation *move) { return contains(move); });
  if (areViews) {
    seen[cast] = &undone->first->getOpOperand(0);
    undoneBy[undone->first].push_back(cast);
    return;
  }
  // Moves become those of the narrow value, and the cast the one op that is
  // computed, if nobody else reads the wide one.
  auto hasOneUse = [](Operation *op) { return op->getResult(0).hasOneUse(); };
  if (!hasOneUse(undone->first) || !llvm::all_of(undone->moves, hasOneUse))
    return;
  seen[undone->first] = &undone->first->getOpOperand(0);
  for (Operation *move : undone->moves)
    seen[move] = &move->getOpOperand(0);
}

bool Views::isOnlyUndone(Operation *op) const {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    OpOperand *behind = seenBy(user);
    return behind && (behind->getOwner() != user || isOnlyUndone(user));
  });
}

Value Views::rootOf(Value value) const {
  while (Operation *def = value.getDefiningOp()) {
    OpOperand *behind = seenBy(def);
    if (!behind)
      break;
    value = behind->get();
  }
  return value;
}
