//===- ComputedTwice.cpp - values that are cheaper to compute twice -------===//
#include "kerf/Fusion/ComputedTwice.h"

#include "kerf/Interfaces/AnyOp.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;

/// Longer chains cost more than the memory traffic that they save.
static constexpr size_t maxOps = 24;
/// Operations per element; random numbers take more.
static constexpr int64_t maxFlops = 64;

bool kerf::isCheapByElement(Operation *op) {
  auto cost = dyn_cast_or_null<OpCostInterface>(op);
  if (!cost || op->getNumResults() != 1 ||
      cost.getCostClass() != CostClass::Elementwise)
    return false;
  SmallVector<RankedTensorType> operands, results;
  for (auto [types, list] :
       {std::pair(TypeRange(op->getOperandTypes()), &operands),
        {TypeRange(op->getResultTypes()), &results}})
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor)
        return false;
      list->push_back(tensor);
    }
  return cost.getFlops(operands, results) / maxFlops <=
         results.front().getNumElements();
}

namespace {
class Decision {
public:
  Decision(FusionGroups &map, TwiceQuestions &questions)
      : map(map), questions(questions) {}

  void run() {
    for (int64_t id = 0; id < static_cast<int64_t>(map.groups.size()); ++id) {
      FusionGroup &group = map.groups[id];
      if (!group.isKernel || group.isAtLoad)
        continue;
      // The last op first: ops that it is computed from may become dead with
      // it.
      for (size_t at = group.ops.size(); at-- > 0;) {
        Operation *op = group.ops[at];
        if (questions.isCheap(op))
          tryValue(op->getResult(0), id);
        at = std::min(at, group.ops.size());
      }
    }
  }

private:
  /// The kernels that read `value`; none if something outside of kernels reads
  /// it too.
  llvm::SetVector<int64_t> readersOf(Value value, int64_t home) const {
    llvm::SetVector<int64_t> readers;
    Operation *maker = value.getDefiningOp();
    for (OpOperand *read : questions.readsOf(value)) {
      if (questions.isApart(*read))
        return {};
      SmallVector<int64_t, 2> groups = map.groupsOf(read->getOwner());
      if (groups.empty())
        return {};
      for (int64_t id : groups) {
        if (id == home || map.computes(id, maker))
          continue;
        if (!map.groups[id].isKernel || map.groups[id].isAtLoad)
          return {};
        readers.insert(id);
      }
    }
    return readers;
  }

  /// The ops that compute `value` from `leaves`, which are in memory or small;
  /// false if there are too many.
  bool follow(Value value, Operation *op, int64_t home,
              llvm::SetVector<Operation *> &chain,
              llvm::SetVector<Value> &leaves) const {
    bool inside = op && map.computes(home, op) &&
                  (questions.isCheap(op) || questions.isInline(op));
    if (!inside) {
      leaves.insert(questions.memoryOf(value));
      return !questions.isOverwritten(questions.memoryOf(value));
    }
    if (chain.contains(op))
      return true;
    for (OpOperand &operand : op->getOpOperands())
      if (!follow(operand.get(),
                  questions.isApart(operand) ? nullptr
                                             : questions.makerOf(operand),
                  home, chain, leaves))
        return false;
    chain.insert(op);
    return chain.size() <= maxOps;
  }

  bool isRead(Value value, int64_t id) const {
    return llvm::any_of(questions.readsOf(value), [&](OpOperand *read) {
      return map.computes(id, read->getOwner());
    });
  }

  bool pays(Value value, int64_t home, ArrayRef<Value> leaves,
            ArrayRef<int64_t> readers) const {
    int64_t own = questions.bytesOf(value);
    int64_t before = own * static_cast<int64_t>(1 + readers.size());
    int64_t after = 0, longer = 0;
    for (Value leaf : leaves) {
      Operation *def = leaf.getDefiningOp();
      int64_t bytes = questions.bytesOf(leaf);
      longer += questions.staysInMemory(leaf) ? 0 : bytes;
      bool kept = llvm::all_of(questions.readsOf(leaf), [&](OpOperand *read) {
        return map.computes(home, read->getOwner());
      });
      after += def && map.computes(home, def) && kept ? bytes : 0;
      for (int64_t reader : readers)
        after += isRead(leaf, reader) ? 0 : bytes;
    }
    return after * 10 <= before * 9 && longer <= 2 * own;
  }

  void tryValue(Value value, int64_t home) {
    llvm::SetVector<int64_t> readers = readersOf(value, home);
    llvm::SetVector<Operation *> chain;
    llvm::SetVector<Value> leaves;
    if (readers.empty() ||
        !follow(value, value.getDefiningOp(), home, chain, leaves) ||
        !pays(value, home, leaves.getArrayRef(), readers.getArrayRef()))
      return;
    questions.take({value, home, SmallVector<Operation *>(chain.getArrayRef()),
                    SmallVector<int64_t>(readers.getArrayRef())});
  }

  FusionGroups &map;
  TwiceQuestions &questions;
};
} // namespace

void kerf::computeTwice(FusionGroups &map, TwiceQuestions &questions) {
  Decision(map, questions).run();
}
