//===- OrderGroups.cpp - the order in which a function runs ---------------===//
//
// Problem: any topological order is correct, but it determines the memory and
// the number of launches.
//
// Idea: Kahn's algorithm, ties in program order. Updates and additions to sums
// over micro-batches run as soon as they can, since they end the lives of a
// gradient and of operands. On a GPU updates wait until gradients of some size
// are ready, so that one launch computes many updates, and roundings of
// parameters come first (docs/Cuda.md, Batches).
//
// Kernels and library calls get their numbers in this order, what is computed
// at load first. O((ops + edges) log ops).
//
//===----------------------------------------------------------------------===//
#include "../OpKinds.h"
#include "../Parameters.h"
#include "BlockOrder.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <queue>

namespace kerf {
#define GEN_PASS_DEF_ORDERGROUPS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
class Scheduler {
public:
  Scheduler(func::FuncOp function)
      : block(function.getBody().front()), order(block),
        target(exec::TargetAttr::of(function)),
        batchesUpdates(target.getBatchesUpdates()) {
    order.addPlannedOrder();
  }

  /// Brings the ops of the block into this order.
  LogicalResult run() {
    findUrgent();
    ArrayRef<Operation *> ops = order.getOps();
    SmallVector<int64_t> waiting(ops.size(), 0);
    for (size_t op = 0; op < ops.size(); ++op)
      for (int64_t next : order.successorsOf(op))
        ++waiting[next];
    for (size_t op = 0; op < ops.size(); ++op)
      if (!waiting[op])
        enqueue(op);
    SmallVector<Operation *> done;
    for (Operation &op : block.without_terminator())
      if (isWrittenOver(&op))
        done.push_back(&op);
    while (!ready.empty() || !held.empty()) {
      if (heldBytes >= target.getHeldBytes() || ready.empty())
        release();
      int64_t op = ready.top().second;
      ready.pop();
      place(ops[op]);
      for (int64_t next : order.successorsOf(op))
        if (--waiting[next] == 0)
          enqueue(next);
    }
    // A result that is written in place is still a new value.
    for (Operation *op : done)
      op->moveBefore(block.getTerminator());
    if (numPlaced != ops.size())
      return block.getParentOp()->emitError("groups form a cycle");
    return success();
  }

private:
  /// With what names its destinations in front of it.
  void place(Operation *op) {
    placeNames(op);
    op->moveBefore(block.getTerminator());
    ++numPlaced;
  }

  void placeNames(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && namesDestination(def) && named.insert(def).second) {
        placeNames(def);
        def->moveBefore(block.getTerminator());
      }
  }

  /// Groups that write over old values, and groups that compute single numbers
  /// for these (a learning rate, Adam's corrections).
  void findUrgent() {
    SmallVector<Operation *> work;
    for (Operation *op : order.getOps())
      for (OpResult result : op->getResults())
        if (Value old = overwrittenBy(result);
            old && outlivesStep(old) && urgent.insert(op).second)
          work.push_back(op);
    auto isNumber = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getNumElements() == 1;
    };
    while (!work.empty())
      for (Value operand : work.pop_back_val()->getOperands())
        if (auto group = operand.getDefiningOp<exec::GroupOp>();
            group && llvm::all_of(group.getResults(), isNumber) &&
            urgent.insert(group).second)
          work.push_back(group);
  }

  /// A mutable source, or a sum over micro-batches.
  static bool outlivesStep(Value place) {
    return isa<BlockArgument>(place) ||
           isa<SourceOpInterface>(place.getDefiningOp());
  }

  void enqueue(int64_t number) {
    Operation *op = order.getOps()[number];
    if (batchesUpdates && isUpdate(op) && !isAwaited(op)) {
      held.push_back(number);
      heldBytes += gradientBytes(op);
      return;
    }
    int64_t priority = urgent.contains(op)                         ? -1
                       : batchesUpdates && isParameterRounding(op) ? -4
                                                                   : number;
    ready.push({priority, number});
  }

  void release() {
    for (int64_t number : std::exchange(held, {})) {
      auto group = cast<exec::GroupOp>(order.getOps()[number]);
      bool reduces = !group.getBody().getOps<nn::ReduceOp>().empty();
      // Runs with its gradient, before all batches.
      ready.push({reduces ? -3 : -2, number});
    }
    heldBytes = 0;
  }

  static bool isUpdate(Operation *op) {
    auto isTensor = [](Type type) {
      return cast<RankedTensorType>(type).getNumElements() > 1;
    };
    return isa<exec::GroupOp>(op) && op->hasAttr(exec::kUpdateMark) &&
           llvm::all_of(op->getResultTypes(), isTensor);
  }

  /// Whether an update computes something besides that others than updates
  /// read, such as the part of a normalization's gradient that it has in common
  /// with the gradient of its scale: all of the backward pass would wait.
  static bool isAwaited(Operation *op) {
    return llvm::any_of(op->getUsers(), [](Operation *user) {
      return !isa<dist::AssignOp>(user) && !user->hasAttr(exec::kUpdateMark);
    });
  }

  /// Bytes that an update reads and does not write: these live until it runs.
  static int64_t gradientBytes(Operation *op) {
    int64_t bytes = 0;
    for (Value input : cast<exec::GroupOp>(op).getInputs())
      if (!isMutableSource(memoryOf(input).getDefiningOp()))
        bytes += exec::sizeBytes(cast<RankedTensorType>(input.getType()));
    return bytes;
  }

  /// A parameter rounded to 16 bits that lives long anyway, or is small: all of
  /// these come first, in a few launches.
  static bool isParameterRounding(Operation *op) {
    constexpr int64_t small = 64 << 10;
    auto group = dyn_cast<exec::GroupOp>(op);
    if (!group || group.getAtLoad() || group.getInputs().size() != 1 ||
        !llvm::hasNItems(group.getBody().front(), 2) ||
        !isa<nn::CastOp>(group.getBody().front().front()) ||
        !isMutableSource(memoryOf(group.getInputs()[0]).getDefiningOp()))
      return false;
    DenseSet<Operation *> readers(group->user_begin(), group->user_end());
    auto type = cast<RankedTensorType>(group.getResultTypes()[0]);
    return readers.size() > 1 || exec::sizeBytes(type) <= small;
  }

  Block &block;
  BlockOrder order;
  exec::TargetAttr target;
  bool batchesUpdates;
  DenseSet<Operation *> urgent, named;
  using Entry = std::pair<int64_t, int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  SmallVector<int64_t> held; ///< updates that wait for others
  int64_t heldBytes = 0;     ///< of the gradients that they read
  size_t numPlaced = 0;
};

/// Numbers the kernels and library calls of one function, starting behind those
/// of the functions before it. An offer stores the number of the kernel whose
/// buffer the product may write (bias gradient), or of that kernel and the
/// forward product (ReLU gradient); both are found through the values.
class Numbers {
public:
  LogicalResult assign(Block &block) {
    for (bool atLoad : {true, false})
      for (auto group : block.getOps<exec::GroupOp>())
        if (group.getAtLoad() == atLoad)
          group.setIndex(numKernels++);
    for (auto call : block.getOps<exec::LibraryCallInterface>())
      call.setIndex(numCalls++);
    for (auto product : block.getOps<exec::MatmulOp>())
      if (failed(renumber(product)))
        return product.emitOpError("offers what no group does");
    return success();
  }

private:
  static exec::GroupOp groupInto(Value place) {
    for (OpOperand &use : place.getUses())
      if (auto group = dyn_cast<exec::GroupOp>(use.getOwner());
          group && use.getOperandNumber() >= group.getInputs().size())
        return group;
    return {};
  }

  static LogicalResult renumber(exec::MatmulOp product) {
    if (auto sums = product.getBiasGradientAttr()) {
      exec::GroupOp kernel = groupInto(product.getSums());
      if (!kernel)
        return failure();
      product.setBiasGradientAttr(
          exec::BiasGradientAttr::get(product.getContext(), sums.getOf(),
                                      sums.getRows(), kernel.getIndex()));
    }
    if (product.getReluGradientAttr()) {
      Value result = product->getResult(0);
      exec::GroupOp kernel = groupInto(result);
      exec::MatmulOp forward;
      if (kernel)
        for (Value input : kernel.getInputs())
          if (auto other = input.getDefiningOp<exec::MatmulOp>();
              other && input != result)
            forward = other;
      if (!forward)
        return failure();
      product.setReluGradientAttr(exec::ReluGradientAttr::get(
          product.getContext(), forward.getIndex(), kernel.getIndex()));
    }
    return success();
  }

  int64_t numKernels = 0, numCalls = 0;
};

struct OrderGroups : kerf::impl::OrderGroupsBase<OrderGroups> {
  void runOnOperation() override {
    Numbers numbers;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      FailureOr<Block *> block = blockOf(function);
      if (failed(block) || (*block && failed(Scheduler(function).run())))
        return signalPassFailure();
      if (*block && failed(numbers.assign(**block)))
        return signalPassFailure();
    }
  }
};
} // namespace
