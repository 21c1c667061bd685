//===- Recompute.cpp - blocks that are computed twice ---------------------===//
//
// These values of a block are held until its backward pass: those that the
// forward pass reads after the block, the values that these are views of, and
// small ones (a mean, a maximum), since holding them costs next to nothing.
// From these and the inputs of the block the other values that its backward
// pass reads are computed again, right before the first op that reads one of
// them. Ops are cloned with all their attributes, so random numbers, which
// follow from an op's number and an element's place, are the same. An op whose
// results the forward pass does not read is moved instead.
//
// All ops of a block get one colocation. Otherwise a cut into stages inside of
// it would need values to go to a later stage in the backward pass.
//
// Invariant: each value is computed from the same values by the same ops as
// before. Linear in ops and uses of the blocks.
//
//===----------------------------------------------------------------------===//
#include "kerf/Plan/Recompute.h"

#include "../EntryFunction.h"
#include "../Model/Graph.h"
#include "Blocks.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Plan/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>
#include <set>

namespace kerf::plan {
#define GEN_PASS_DEF_RECOMPUTE
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf::plan

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// A value is small if it has at most this part of the bytes of the largest
/// value that comes into the block.
static constexpr int64_t kSmallPart = 32;

/// The first and last colocation of a block's ops; ops between them that depend
/// on no input belong to it, too.
static std::pair<int64_t, int64_t> numbersOf(ArrayRef<Operation *> ops) {
  std::pair<int64_t, int64_t> numbers = {INT64_MAX, -1};
  for (Operation *op : ops)
    if (std::optional<int64_t> number = dist::getColocation(op)) {
      numbers.first = std::min(numbers.first, *number);
      numbers.second = std::max(numbers.second, *number);
    }
  return numbers;
}

namespace {

/// One block.
class Repeater {
public:
  explicit Repeater(ArrayRef<Operation *> ops)
      : ops(ops), inside(ops.begin(), ops.end()), numbers(numbersOf(ops)) {
    findHeld();
  }

  /// Whether there was anything to compute again.
  bool recompute() {
    Operation *place = collect();
    if (!place)
      return false;
    moveOrClone(place);
    return true;
  }

private:
  bool isMadeHere(Value value) const {
    return inside.contains(value.getDefiningOp());
  }

  /// Whether the op of the backward pass is of this block. Others could run
  /// before the block is computed again.
  bool belongsHere(Operation *op) const {
    std::optional<int64_t> number = dist::getColocation(op);
    return number && *number >= numbers.first && *number <= numbers.second;
  }

  bool mustBeHeld(Operation *op) const {
    if (!isMemoryEffectFree(op))
      return true;
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      return isBackward(user)
                 ? !belongsHere(user)
                 : !inside.contains(user) && !isa<dist::AccumulateOp>(user);
    });
  }

  void findHeld() {
    int64_t max = 0;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (!isMadeHere(operand) &&
            !isa_and_nonnull<SourceOpInterface>(operand.getDefiningOp()))
          max = std::max(max, wholeBytes(operand));
    for (Operation *op : llvm::reverse(ops)) {
      bool isSmall = llvm::all_of(op->getResults(), [&](Value result) {
        return wholeBytes(result) * kSmallPart <= max;
      });
      if (isSmall || mustBeHeld(op))
        held.insert(op);
      // A view is held as the value that it is a view of.
      auto costed = dyn_cast<OpCostInterface>(op);
      if (held.contains(op) && costed &&
          costed.getCostClass() == CostClass::View &&
          op->getNumOperands() == 1 && isMadeHere(op->getOperand(0)) &&
          wholeBytes(op->getOperand(0)) == wholeBytes(op->getResult(0)))
        held.insert(op->getOperand(0).getDefiningOp());
    }
  }

  /// Collects what is computed again, and returns the first op that reads any
  /// of it.
  Operation *collect() {
    Operation *first = nullptr;
    SmallVector<Operation *> work;
    for (Operation *op : ops) {
      if (held.contains(op))
        continue;
      bool isRead = false;
      for (Operation *user : op->getUsers())
        if (isBackward(user)) {
          isRead = true;
          if (!first || user->isBeforeInBlock(first))
            first = user;
        }
      if (isRead)
        work.push_back(op);
    }
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      if (!again.insert(op).second)
        continue;
      for (Value operand : op->getOperands())
        if (isMadeHere(operand) && !held.contains(operand.getDefiningOp()))
          work.push_back(operand.getDefiningOp());
    }
    return first;
  }

  void moveOrClone(Operation *place) {
    llvm::DenseSet<Operation *> moved;
    for (Operation *op : llvm::reverse(ops))
      if (again.contains(op) && llvm::all_of(op->getUsers(), [&](Operation *u) {
            return isBackward(u) || moved.contains(u);
          }))
        moved.insert(op);
    OpBuilder builder(place);
    IRMapping copies;
    for (Operation *op : ops) {
      if (!again.contains(op))
        continue;
      if (moved.contains(op)) {
        op->moveBefore(place);
        for (OpOperand &operand : op->getOpOperands())
          operand.set(copies.lookupOrDefault(operand.get()));
        dist::setRecomputed(op);
        continue;
      }
      Operation *copy = builder.clone(*op, copies);
      dist::setRecomputed(copy);
      for (auto [result, other] :
           llvm::zip(op->getResults(), copy->getResults()))
        result.replaceUsesWithIf(
            other, [&](OpOperand &use) { return isBackward(use.getOwner()); });
    }
  }

  ArrayRef<Operation *> ops;
  llvm::DenseSet<Operation *> inside, held, again;
  std::pair<int64_t, int64_t> numbers;
};

} // namespace

size_t kerf::plan::countBlocks(func::FuncOp function) {
  return findBlocks(forwardOps(function)).size();
}

bool kerf::plan::recomputeBlocks(func::FuncOp function,
                                 ArrayRef<size_t> chosen) {
  SmallVector<Operation *> all = forwardOps(function);
  std::vector<OpRange> blocks = findBlocks(all);
  // By the last number of a block that is recomputed: its first.
  std::map<int64_t, int64_t> together;
  for (size_t number : chosen) {
    OpRange range = blocks[number];
    ArrayRef<Operation *> ops =
        ArrayRef(all).slice(range.begin, range.end - range.begin);
    auto [first, last] = numbersOf(ops);
    if (Repeater(ops).recompute())
      together[last] = first;
  }
  for (Operation &op : function.getBody().front())
    if (std::optional<int64_t> number = dist::getColocation(&op))
      if (auto block = together.lower_bound(*number);
          block != together.end() && block->second <= *number)
        dist::setColocation(&op, block->second);
  return !together.empty();
}

bool kerf::plan::recomputeEvery(func::FuncOp function, int64_t every) {
  if (every == 0)
    return false;
  std::vector<size_t> chosen;
  for (size_t number = 0, count = countBlocks(function); number < count;
       number += static_cast<size_t>(every))
    chosen.push_back(number);
  return recomputeBlocks(function, chosen);
}

FailureOr<std::vector<size_t>> kerf::plan::blocksOf(func::FuncOp function,
                                                    ArrayRef<std::string> names,
                                                    std::string &unknown) {
  SmallVector<Operation *> all = forwardOps(function);
  std::vector<OpRange> blocks = findBlocks(all);
  ValueNames values(function);
  std::set<size_t> chosen;
  for (const std::string &name : names) {
    Value value = values.find(name);
    Operation *maker = value ? value.getDefiningOp() : nullptr;
    std::optional<int64_t> number =
        maker ? dist::getColocation(maker) : std::nullopt;
    auto found = llvm::find_if(blocks, [&](const OpRange &range) {
      auto [first, last] =
          numbersOf(ArrayRef(all).slice(range.begin, range.end - range.begin));
      return number && first <= *number && *number <= last;
    });
    if (found == blocks.end()) {
      unknown = name;
      return failure();
    }
    chosen.insert(static_cast<size_t>(found - blocks.begin()));
  }
  return std::vector<size_t>(chosen.begin(), chosen.end());
}

namespace {
struct Recompute : plan::impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    func::FuncOp main = entryToPlan(getOperation());
    if (!main)
      return signalPassFailure();
    if (every < 0) {
      emitError(getOperation().getLoc(), "every: ")
          << int64_t(every) << ", expected at least 0";
      return signalPassFailure();
    }
    recomputeEvery(main, every);
  }
};
} // namespace
