//===- FormGroups.cpp - which ops are computed together; see Groups.h -----===//
#include "kerf/Fusion/Groups.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

using Role = FusionQuestions::Role;

Value kerf::followEpilogue(Value result,
                           llvm::function_ref<OpOperand *(Value)> onlyReader,
                           llvm::function_ref<Value(OpOperand &)> take) {
  while (OpOperand *read = onlyReader(result)) {
    if (read->getOwner()->getNumResults() != 1)
      break;
    Value next = take(*read);
    if (!next)
      break;
    result = next;
  }
  return result;
}

SmallVector<Operation *>
kerf::opsOfCall(Operation *anchor, const FusionQuestions &questions,
                llvm::function_ref<bool(Operation *)> isTaken) {
  SmallVector<Operation *> ops = {anchor};
  if (anchor->getNumResults() != 1)
    return ops;
  auto onlyReader = [&](Value result) -> OpOperand * {
    SmallVector<OpOperand *> reads = questions.readsOf(result.getDefiningOp());
    bool isOnly = reads.size() == 1 && !questions.isApart(*reads[0]);
    return isOnly ? reads[0] : nullptr;
  };
  auto take = [&](OpOperand &read) -> Value {
    Operation *next = read.getOwner();
    if (isTaken(next) || !questions.takesIn(ops, read))
      return {};
    ops.push_back(next);
    return next->getResult(0);
  };
  followEpilogue(anchor->getResult(0), onlyReader, take);
  return ops;
}

namespace {
class GroupBuilder {
public:
  GroupBuilder(Block &block, const FusionQuestions &questions)
      : block(block), questions(questions) {
    int64_t n = 0;
    for (Operation &op : block)
      position[&op] = n++;
  }

  FailureOr<FusionGroups> build() {
    for (Operation &op : block)
      if (questions.roleOf(&op) == Role::Call)
        formCall(&op);
    for (Operation &op : block) {
      Role role = questions.roleOf(&op);
      if (role == Role::None || role == Role::Call || groupOf.contains(&op) ||
          questions.isDead(&op) || follows(&op))
        continue;
      if (failed(form(&op)))
        return failure();
    }
    return std::move(map);
  }

private:
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

  void formCall(Operation *anchor) {
    SmallVector<Operation *> ops =
        opsOfCall(anchor, questions,
                  [&](Operation *next) { return groupOf.contains(next); });
    add(ops, /*isKernel=*/false, questions.isAtLoad(anchor));
  }

  bool follows(Operation *op) const {
    if (stays.contains(op) || !questions.follows(op))
      return false;
    Operation *user = *op->user_begin();
    return questions.roleOf(user) != Role::Alone || follows(user);
  }

  void collect(Operation *op, SmallVectorImpl<Operation *> &ops) const {
    ops.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && follows(def))
        collect(def, ops);
  }

  LogicalResult form(Operation *op) {
    if (questions.roleOf(op) == Role::Kernel)
      return formKernel(op);
    add({op}, /*isKernel=*/false, questions.isAtLoad(op));
    return success();
  }

  /// Forms the kernel of one op and the shape ops that follow into it. If code
  /// generation refuses these together, the shape ops that can stand alone
  /// become groups of their own, and the rest is tried again.
  LogicalResult formKernel(Operation *op) {
    SmallVector<Operation *> ops;
    collect(op, ops);
    int64_t id = add(ops, /*isKernel=*/true, questions.isAtLoad(op));
    lastKernel = std::max(lastKernel, position.lookup(op));
    std::string reason = questions.whyNoKernel(groups[id].ops);
    if (reason.empty()) {
      drawInProducers(id);
      return success();
    }
    bool retry = false;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && follows(def) && questions.canStay(def)) {
        stays.insert(def);
        retry = true;
      }
    if (!retry)
      return op->emitError("cannot be compiled: ") << reason;
    for (Operation *member : groups[id].ops)
      groupOf.erase(member);
    groups[id].ops.clear();
    // Ops that now stay outside of the kernel get kernels of their own first.
    // `op` itself, which may be among them, is formed last.
    for (Operation *member : llvm::reverse(ops))
      if (member != op && stays.contains(member) && !groupOf.count(member))
        if (failed(form(member)))
          return failure();
    return formKernel(op);
  }

  void drawInProducers(int64_t id) {
    SmallVector<int64_t> producers;
    for (Operation *op : groups[id].ops) {
      if (!questions.mayJoin(op))
        return;
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *def = questions.makerOf(operand);
        int64_t producer = map.find(def);
        if (producer >= 0 && producer != id && groups[producer].isKernel &&
            groups[producer].isAtLoad == groups[id].isAtLoad &&
            questions.mayJoin(def) && !questions.isApart(operand))
          producers.push_back(producer);
      }
    }
    // The latest first: the one most likely to lie on a path between others.
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
      // hasDetour() is checked last, since it is the most expensive: it
      // searches all groups between the two.
      if (merged.ops.size() > kMaxKernelOps || !questions.canFuse(merged.ops) ||
          hasDetour(producer, id))
        continue;
      for (Operation *op : groups[producer].ops)
        groupOf[op] = id;
      groups[id].ops = std::move(merged.ops);
      groups[producer].ops.clear();
    }
  }

  /// Whether a path leads from one group to another through a third. Kernels
  /// formed so far end at `lastKernel`, and no op of another group gives
  /// results before its last op, so a path that passes `lastKernel` cannot lead
  /// back.
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
      for (OpOperand *read : questions.readsOf(op))
        visit(read->getOwner());
    };
    for (Operation *op : groups[from].ops)
      for (OpOperand *read : questions.readsOf(op)) {
        int64_t reader = map.find(read->getOwner());
        if ((reader == to || reader == from) && reader >= 0) {
          if (questions.isApart(*read))
            return true;
          continue;
        }
        visit(read->getOwner());
      }
    while (!stack.empty()) {
      Operation *op = stack.pop_back_val();
      int64_t group = map.find(op);
      if (group < 0) {
        // No group yet: the op lies behind `to`, or is a shape op for an op
        // that does.
        push(op);
        continue;
      }
      if (group == to)
        return true;
      if (seenGroups.insert(group).second)
        for (Operation *member : groups[group].ops)
          push(member);
    }
    return false;
  }

  Block &block;
  const FusionQuestions &questions;
  FusionGroups map;
  std::vector<FusionGroup> &groups = map.groups;
  DenseMap<Operation *, int64_t> &groupOf = map.groupOf;
  DenseMap<Operation *, int64_t> &position = map.position;
  int64_t lastKernel = -1; ///< position of the last op of all kernels so far
  /// Shape ops that form a group of their own although a kernel reads them.
  DenseSet<Operation *> stays;
};
} // namespace

FailureOr<FusionGroups>
kerf::formFusionGroups(Block &block, const FusionQuestions &questions) {
  return GroupBuilder(block, questions).build();
}
