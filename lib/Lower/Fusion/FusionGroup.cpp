//===- FusionGroup.cpp - which ops become one kernel; see FusionGroup.h ---===//
#include "FusionGroup.h"

#include "../Library/Strides.h"
#include "../OpKinds.h"
#include "../Parameters.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

namespace {
class GroupBuilder {
public:
  GroupBuilder(Block &block) : block(block) {
    int64_t n = 0;
    for (Operation &op : block)
      position[&op] = n++;
  }

  FailureOr<FusionGroups> build() {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>() ||
          isa<SourceOpInterface, exec::EmptyOp>(op))
        continue;
      if (!isTensorOp(&op)) {
        add({&op}, /*isKernel=*/false, isAtLoad(&op));
        continue;
      }
      if (op.use_empty() || follows(&op))
        continue;
      if (failed(form(&op)))
        return failure();
    }
    return std::move(map);
  }

private:
  static bool isTensorOp(Operation *op) {
    return isa<nn::NNDialect>(op->getDialect());
  }

  static bool isAtLoad(Operation *op) {
    return op->hasAttr(exec::kAtLoad) ||
           (isa<SourceOpInterface>(op) && !isMutableSource(op));
  }

  int64_t add(ArrayRef<Operation *> ops, bool isKernel, bool isAtLoad) {
    int64_t id = groups.size();
    FusionGroup group = {SmallVector<Operation *>(ops), isKernel, isAtLoad};
    sortOps(group);
    for (Operation *op : group.ops)
      groupOf[op] = id;
    groups.push_back(std::move(group));
    return id;
  }

  void sortOps(FusionGroup &group) {
    llvm::sort(group.ops, [&](Operation *a, Operation *b) {
      return position.lookup(a) < position.lookup(b);
    });
    group.ops.erase(std::unique(group.ops.begin(), group.ops.end()),
                    group.ops.end());
  }

  /// Whether the op is computed where it is used: it moves elements or is a
  /// small constant, and its one user stands in a kernel.
  bool follows(Operation *op) const {
    if (!(isShapeOp(op) || isInline(op)) || stays.contains(op) ||
        !op->getResult(0).hasOneUse())
      return false;
    Operation *user = *op->user_begin();
    if (!isTensorOp(user) || (isAtLoad(user) != isAtLoad(op) && !isInline(op)))
      return false;
    // A parameter's part of a bucket of gradients is a view: with the offset in
    // their code no two updates would be the same kernel.
    if (isa<nn::SliceOp>(op) && isAlias(op) && !isAtLoad(op) &&
        isReadByUpdate(op))
      return false;
    return !isAlias(user) || follows(user);
  }

  void collect(Operation *op, SmallVectorImpl<Operation *> &ops) const {
    ops.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && follows(def))
        collect(def, ops);
  }

  LogicalResult form(Operation *op) {
    if (!isAlias(op))
      return formKernel(op);
    add({op}, /*isKernel=*/false, isAtLoad(op));
    return success();
  }

  /// A kernel for one op with what follows into it. Where code generation does
  /// not take them together, what is not a constant is computed first.
  LogicalResult formKernel(Operation *op) {
    SmallVector<Operation *> ops;
    collect(op, ops);
    int64_t id = add(ops, /*isKernel=*/true, isAtLoad(op));
    lastKernel = std::max(lastKernel, position.lookup(op));
    KernelVerdict verdict = classifyKernel(groups[id].ops);
    if (verdict.supported) {
      drawInProducers(id);
      return success();
    }
    bool retry = false;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && follows(def) && !isInline(def)) {
        stays.insert(def);
        retry = true;
      }
    if (!retry)
      return op->emitError("cannot be compiled: ") << verdict.reason;
    for (Operation *member : groups[id].ops)
      groupOf.erase(member);
    groups[id].ops.clear();
    for (Operation *member : llvm::reverse(ops))
      if (stays.contains(member) && !groupOf.count(member))
        if (failed(form(member)))
          return failure();
    return formKernel(op);
  }

  void drawInProducers(int64_t id) {
    SmallVector<int64_t> producers;
    for (Operation *op : groups[id].ops)
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp()) {
          auto it = groupOf.find(def);
          if (it != groupOf.end() && it->second != id &&
              groups[it->second].isKernel &&
              groups[it->second].isAtLoad == groups[id].isAtLoad)
            producers.push_back(it->second);
        }
    // The latest first: it is the likeliest to stand in between others.
    llvm::sort(producers, [&](int64_t a, int64_t b) {
      return position.lookup(groups[a].ops.back()) >
             position.lookup(groups[b].ops.back());
    });
    producers.erase(std::unique(producers.begin(), producers.end()),
                    producers.end());
    for (int64_t producer : producers) {
      FusionGroup merged;
      merged.ops = groups[producer].ops;
      merged.ops.append(groups[id].ops);
      sortOps(merged);
      // The detour last: it is looked for along all that lies between.
      if (merged.ops.size() > kMaxKernelOps || !canFuse(merged.ops) ||
          hasDetour(producer, id))
        continue;
      for (Operation *op : groups[producer].ops)
        groupOf[op] = id;
      groups[id].ops = std::move(merged.ops);
      groups[producer].ops.clear();
    }
  }

  /// Whether a path leads from one group to another through a third. Kernels so
  /// far end at `lastKernel`, other groups have the results of their one op: so
  /// no path leads back from behind it.
  bool hasDetour(int64_t from, int64_t to) {
    DenseSet<int64_t> seenGroups = {from};
    DenseSet<Operation *> seenOps;
    SmallVector<Operation *> stack;
    auto visit = [&](Operation *op) {
      if (op->getBlock() == &block && position.lookup(op) <= lastKernel &&
          seenOps.insert(op).second)
        stack.push_back(op);
    };
    auto push = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        visit(user);
    };
    for (Operation *op : groups[from].ops)
      for (Operation *user : op->getUsers()) {
        auto it = groupOf.find(user);
        bool direct =
            it != groupOf.end() && (it->second == to || it->second == from);
        if (!direct)
          visit(user);
      }
    while (!stack.empty()) {
      Operation *op = stack.pop_back_val();
      auto it = groupOf.find(op);
      if (it == groupOf.end()) {
        // No group yet: it stands behind `to`, or moves elements for such an
        // op.
        push(op);
        continue;
      }
      if (it->second == to)
        return true;
      if (seenGroups.insert(it->second).second)
        for (Operation *member : groups[it->second].ops)
          push(member);
    }
    return false;
  }

  Block &block;
  FusionGroups map;
  std::vector<FusionGroup> &groups = map.groups;
  DenseMap<Operation *, int64_t> &groupOf = map.groupOf;
  DenseMap<Operation *, int64_t> &position = map.position;
  int64_t lastKernel = -1; ///< position of the last op of all kernels so far
  /// Shape ops that are computed by themselves although a kernel reads them.
  DenseSet<Operation *> stays;
};
} // namespace

FailureOr<FusionGroups> kerf::formFusionGroups(Block &block) {
  return GroupBuilder(block).build();
}
