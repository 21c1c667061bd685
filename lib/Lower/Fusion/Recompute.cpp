//===- Recompute.cpp - copies of ops for kernels that compute twice -------===//
//
// Lowering's answers to kerf/Fusion/ComputedTwice.h, which decides: the readers
// of a value get copies of the ops that compute it, as long as code generation
// accepts them.
//
// Invariant: groups stay disjoint.
//
//===----------------------------------------------------------------------===//
#include "FusionGroup.h"

#include "../Library/Strides.h"
#include "../OpKinds.h"
#include "../Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Fusion/ComputedTwice.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;

namespace {
class Copies : public TwiceQuestions {
public:
  Copies(FusionGroups &map) : map(map) {}

  bool isCheap(Operation *op) const override {
    return isElementwise(op) && isCheapByElement(op);
  }
  bool isInline(Operation *op) const override {
    return isShapeOp(op) || kerf::isInline(op);
  }
  bool isOverwritten(Value value) const override {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return isMutableSource(value.getDefiningOp());
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return dist::numberFrom(function, argument.getArgNumber(),
                            dist::From::Accumulator)
        .has_value();
  }
  bool staysInMemory(Value value) const override {
    Operation *def = value.getDefiningOp();
    return !def || isa<SourceOpInterface>(def);
  }
  int64_t bytesOf(Value value) const override {
    return exec::sizeBytes(cast<RankedTensorType>(value.getType()));
  }
  bool take(const ComputedTwice &twice) override;

private:
  /// Whether nothing outside of the group reads any of it.
  bool isUnused(int64_t id) const {
    return llvm::all_of(map.groups[id].ops, [&](Operation *op) {
      return llvm::all_of(op->getUsers(), [&](Operation *user) {
        return map.find(user) == id;
      });
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

bool Copies::take(const ComputedTwice &twice) {
  Value value = twice.value;
  struct Copy {
    int64_t reader;
    SmallVector<Operation *> ops; ///< of the reader, as they were
    SmallVector<Operation *> clones;
    SmallVector<OpOperand *> uses;
  };
  SmallVector<Copy> copies;
  bool good = true;
  for (int64_t reader : twice.readers) {
    FusionGroup &group = map.groups[reader];
    Copy &copy = copies.emplace_back();
    copy.reader = reader;
    copy.ops = group.ops;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    IRMapping values;
    for (Operation *op : twice.chain) {
      Operation *clone = builder.clone(*op, values);
      map.position[clone] = map.position.lookup(op);
      map.groupOf[clone] = reader;
      copy.clones.push_back(clone);
    }
    for (OpOperand &use : value.getUses())
      if (map.find(use.getOwner()) == reader &&
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
  if (good && (isUnused(twice.home) || canFuse(map.groups[twice.home].ops))) {
    dropUnused(twice.home);
    return true;
  }
  for (Copy &copy : copies) {
    for (OpOperand *use : copy.uses)
      use->set(value);
    map.groups[copy.reader].ops = copy.ops;
    for (Operation *clone : llvm::reverse(copy.clones))
      erase(clone);
  }
  return false;
}

void kerf::recomputeValues(FusionGroups &map) {
  Copies copies(map);
  computeTwice(map, copies);
}
