//===- Recompute.cpp - values that are cheaper to compute twice -----------===//
//
// Problem: a loss over 50,000 classes computes exp(x - max) for a sum, and its
// gradient needs it again. Stored, it would be written and read although x,
// from which it follows, is in memory anyway. The same holds for the position
// of a label, and for the normalised rows in the gradient of a norm's scale.
//
// Idea: once kernels are formed, look at the values that a kernel stores for
// others and computes by elementwise ops. If all readers are kernels, and
// reading the leaves of the computation moves fewer bytes than storing and
// reading the value, the readers get copies of these ops, as long as code
// generation accepts them.
//
// Invariant: groups stay disjoint, and the graph of groups has no cycle: a
// reader already ran behind the kernel, so behind all that the kernel reads.
// Values that live longer are at most twice as large as the one that is not
// stored. Linear in the ops of kernels, except for the questions to code
// generation.
//
//===----------------------------------------------------------------------===//
#include "FusionGroup.h"

#include "../Library/Strides.h"
#include "../OpKinds.h"
#include "../Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;

/// Longer chains cost more than the memory traffic that they save.
static constexpr size_t maxOps = 24;

static int64_t bytesOf(Value value) {
  return exec::sizeBytes(cast<RankedTensorType>(value.getType()));
}

/// Whether a step writes over the value: its readers must run before the
/// overwrite.
static bool isOverwritten(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return isMutableSource(value.getDefiningOp());
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return dist::numberFrom(function, argument.getArgNumber(),
                          dist::From::Accumulator)
      .has_value();
}

namespace {
class Recomputation {
public:
  Recomputation(FusionGroups &map) : map(map) {}

  void run() {
    for (int64_t id = 0; id < static_cast<int64_t>(map.groups.size()); ++id) {
      FusionGroup &group = map.groups[id];
      if (!group.isKernel || group.isAtLoad)
        continue;
      // The last op first: ops that it is computed from may become dead with
      // it.
      for (size_t at = group.ops.size(); at-- > 0;) {
        Operation *op = group.ops[at];
        if (isElementwise(op) && !op->use_empty())
          tryValue(op->getResult(0), id);
        at = std::min(at, group.ops.size());
      }
    }
  }

private:
  int64_t groupOf(Operation *op) const {
    auto it = map.groupOf.find(op);
    return it == map.groupOf.end() ? -1 : it->second;
  }

  /// The kernels that read `value`; none if an op outside of kernels reads it
  /// too.
  llvm::SetVector<int64_t> readersOf(Value value, int64_t home) const {
    llvm::SetVector<int64_t> readers;
    for (Operation *user : value.getUsers()) {
      int64_t id = groupOf(user);
      if (id == home)
        continue;
      if (id < 0 || !map.groups[id].isKernel || map.groups[id].isAtLoad)
        return {};
      readers.insert(id);
    }
    return readers;
  }

  /// The ops that compute `value` from `leaves`, which are in memory or small;
  /// false if there are too many.
  bool follow(Value value, int64_t home, llvm::SetVector<Operation *> &chain,
              llvm::SetVector<Value> &leaves) const {
    Operation *op = value.getDefiningOp();
    bool inside = op && groupOf(op) == home &&
                  (isElementwise(op) || isShapeOp(op) || isInline(op) ||
                   isa<nn::IotaOp>(op));
    if (!inside) {
      leaves.insert(value);
      return !isOverwritten(value);
    }
    if (chain.contains(op))
      return true;
    for (Value operand : op->getOperands())
      if (!follow(operand, home, chain, leaves))
        return false;
    chain.insert(op);
    return chain.size() <= maxOps;
  }

  bool isRead(Value value, int64_t id) const {
    return llvm::any_of(value.getUsers(),
                        [&](Operation *user) { return groupOf(user) == id; });
  }

  bool pays(Value value, int64_t home, ArrayRef<Value> leaves,
            ArrayRef<int64_t> readers) const {
    int64_t before = bytesOf(value) * (1 + readers.size());
    int64_t after = 0, longer = 0;
    for (Value leaf : leaves) {
      Operation *def = leaf.getDefiningOp();
      bool stays = !def || isa<SourceOpInterface>(def);
      longer += stays ? 0 : bytesOf(leaf);
      bool kept = llvm::all_of(leaf.getUsers(), [&](Operation *user) {
        return groupOf(user) == home;
      });
      after += def && groupOf(def) == home && kept ? bytesOf(leaf) : 0;
      for (int64_t reader : readers)
        after += isRead(leaf, reader) ? 0 : bytesOf(leaf);
    }
    return after * 10 <= before * 9 && longer <= 2 * bytesOf(value);
  }

  void tryValue(Value value, int64_t home) {
    llvm::SetVector<int64_t> readers = readersOf(value, home);
    llvm::SetVector<Operation *> chain;
    llvm::SetVector<Value> leaves;
    if (readers.empty() || !follow(value, home, chain, leaves) ||
        !pays(value, home, leaves.getArrayRef(), readers.getArrayRef()))
      return;
    struct Copy {
      int64_t reader;
      SmallVector<Operation *> ops; ///< of the reader, as they were
      SmallVector<Operation *> clones;
      SmallVector<OpOperand *> uses;
    };
    SmallVector<Copy> copies;
    bool good = true;
    for (int64_t reader : readers) {
      FusionGroup &group = map.groups[reader];
      Copy &copy = copies.emplace_back();
      copy.reader = reader;
      copy.ops = group.ops;
      OpBuilder builder(value.getContext());
      builder.setInsertionPointAfterValue(value);
      IRMapping values;
      for (Operation *op : chain) {
        Operation *clone = builder.clone(*op, values);
        map.position[clone] = map.position.lookup(op);
        map.groupOf[clone] = reader;
        copy.clones.push_back(clone);
      }
      for (OpOperand &use : value.getUses())
        if (groupOf(use.getOwner()) == reader &&
            !llvm::is_contained(copy.clones, use.getOwner()))
          copy.uses.push_back(&use);
      for (OpOperand *use : copy.uses)
        use->set(values.lookup(value));
      group.ops.append(copy.clones);
      // Copies of one op share its number, but are independent.
      llvm::sort(group.ops, [&](Operation *a, Operation *b) {
        int64_t first = map.position.lookup(a), second = map.position.lookup(b);
        return first != second ? first < second : a->isBeforeInBlock(b);
      });
      good = group.ops.size() <= kMaxKernelOps && canFuse(group.ops);
      if (!good)
        break;
    }
    // Values inside the chain may have become outputs.
    if (good && (isUnused(home) || canFuse(map.groups[home].ops))) {
      dropUnused(home);
      return;
    }
    for (Copy &copy : copies) {
      for (OpOperand *use : copy.uses)
        use->set(value);
      map.groups[copy.reader].ops = copy.ops;
      for (Operation *clone : llvm::reverse(copy.clones))
        erase(clone);
    }
  }

  /// Whether nothing outside of the group reads any of it.
  bool isUnused(int64_t id) const {
    return llvm::all_of(map.groups[id].ops, [&](Operation *op) {
      return llvm::all_of(op->getUsers(),
                          [&](Operation *user) { return groupOf(user) == id; });
    });
  }

  void dropUnused(int64_t id) {
    FusionGroup &group = map.groups[id];
    SmallVector<Operation *> kept;
    for (Operation *op : llvm::reverse(group.ops))
      if (op->use_empty())
        erase(op);
      else
        kept.push_back(op);
    group.ops.assign(kept.rbegin(), kept.rend());
  }

  void erase(Operation *op) {
    map.groupOf.erase(op);
    map.position.erase(op);
    op->erase();
  }

  FusionGroups &map;
};
} // namespace

void kerf::recomputeValues(FusionGroups &map) { Recomputation(map).run(); }
