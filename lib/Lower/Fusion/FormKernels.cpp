//===- FormKernels.cpp - tensor ops that are computed together ------------===//
//
// Each group of ops that becomes a kernel (FusionGroup.h) becomes an exec.group
// with a copy of them. Results get memory of their own.
//
//===----------------------------------------------------------------------===//
#include "FusionGroup.h"

#include "../Calls.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallVectorExtras.h"

namespace kerf {
#define GEN_PASS_DEF_FORMKERNELS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
class Outliner {
public:
  Outliner(Block &block, FusionGroups &map)
      : block(block), map(map), builder(OpBuilder::atBlockTerminator(&block)) {}

  void run() {
    SmallVector<Operation *> before;
    for (Operation &op : block.without_terminator())
      before.push_back(&op);
    for (int64_t group : order())
      if (map.groups[group].isKernel)
        outline(map.groups[group]);
      else
        move(map.groups[group].ops.front());
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      use.set(values.lookupOrDefault(use.get()));
    // What is left is in groups now, but for the sources.
    for (Operation *op : llvm::reverse(before))
      if (!moved.contains(op) && op->use_empty())
        op->erase();
    eraseUnread();
  }

private:
  /// By the place of their last op in the program; what a group reads is
  /// computed before it all the same.
  SmallVector<int64_t> order() const {
    SmallVector<std::pair<int64_t, int64_t>> byPosition;
    for (auto [id, group] : llvm::enumerate(map.groups))
      if (!group.ops.empty())
        byPosition.push_back({map.position.lookup(group.ops.back()), id});
    llvm::sort(byPosition);
    SmallVector<int64_t> ordered;
    DenseSet<int64_t> open, placed;
    for (auto [position, id] : byPosition) {
      SmallVector<int64_t> stack = {id};
      while (!stack.empty()) {
        int64_t top = stack.back();
        if (!placed.contains(top) && open.insert(top).second) {
          // The first that is read on top of the stack.
          SmallVector<int64_t> producers = producersOf(top);
          for (int64_t producer : llvm::reverse(producers))
            if (!placed.contains(producer))
              stack.push_back(producer);
          continue;
        }
        stack.pop_back();
        if (placed.insert(top).second)
          ordered.push_back(top);
      }
    }
    return ordered;
  }

  /// The groups that a group reads, by their place in the program.
  SmallVector<int64_t> producersOf(int64_t id) const {
    SmallVector<std::pair<int64_t, int64_t>> producers;
    for (Operation *op : map.groups[id].ops)
      for (Value operand : op->getOperands())
        if (auto it = map.groupOf.find(operand.getDefiningOp());
            it != map.groupOf.end() && it->second != id)
          producers.push_back(
              {map.position.lookup(map.groups[it->second].ops.back()),
               it->second});
    llvm::sort(producers);
    producers.erase(llvm::unique(producers), producers.end());
    return llvm::map_to_vector(producers, [](auto entry) {
      return entry.second;
    });
  }

  /// With what names where it writes.
  void move(Operation *op) {
    for (Value operand : op->getOperands())
      if (auto empty = operand.getDefiningOp<exec::EmptyOp>();
          empty && moved.insert(empty).second)
        empty->moveBefore(block.getTerminator());
    moved.insert(op);
    op->moveBefore(block.getTerminator());
    for (OpOperand &operand : op->getOpOperands())
      operand.set(values.lookupOrDefault(operand.get()));
  }

  void outline(const FusionGroup &group) {
    std::string node;
    for (Operation *op : llvm::reverse(group.ops))
      if (node.empty())
        node = modelNode(op->getLoc());
    Operation *last = group.ops.back();
    KernelVerdict kernel = classifyKernel(group.ops);
    SmallVector<Value> inputs, places;
    SmallVector<Type> types;
    for (Value value : kernel.inputs)
      inputs.push_back(values.lookupOrDefault(value));
    for (Value value : kernel.outputs) {
      types.push_back(value.getType());
      places.push_back(
          exec::EmptyOp::create(builder, value.getLoc(), types.back()));
    }
    auto outlined = exec::GroupOp::create(
        builder, last->getLoc(), types, builder.getI64IntegerAttr(numGroups++),
        builder.getStringAttr(node), phaseOf(last->getLoc()),
        group.isAtLoad ? builder.getUnitAttr() : UnitAttr(), inputs, places);
    if (llvm::any_of(group.ops, [](Operation *op) {
          return op->hasAttr(exec::kUpdateMark);
        }))
      outlined->setAttr(exec::kUpdateMark, builder.getUnitAttr());
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&outlined.getBody());
    IRMapping inside;
    for (Value value : kernel.inputs)
      inside.map(value, body->addArgument(value.getType(), value.getLoc()));
    for (Operation *op : group.ops) {
      // Where the value lies does not matter inside a group.
      Operation *clone = builder.clone(*op, inside);
      for (NamedAttribute attribute :
           llvm::to_vector(clone->getDiscardableAttrs()))
        clone->removeDiscardableAttr(attribute.getName());
    }
    SmallVector<Value> yielded;
    for (Value value : kernel.outputs)
      yielded.push_back(inside.lookup(value));
    exec::YieldOp::create(builder, last->getLoc(), yielded);
    values.map(kernel.outputs, outlined.getResults());
  }

  /// Nothing is computed at load that nothing reads.
  void eraseUnread() {
    SmallVector<Operation *> atLoad, empties;
    for (Operation &op : block.without_terminator()) {
      auto group = dyn_cast<exec::GroupOp>(op);
      if (op.hasAttr(exec::kAtLoad) || (group && group.getAtLoad()))
        atLoad.push_back(&op);
      else if (isa<exec::EmptyOp>(op))
        empties.push_back(&op);
    }
    for (Operation *op : llvm::reverse(atLoad))
      if (op->use_empty())
        op->erase();
    for (Operation *op : empties)
      if (op->use_empty())
        op->erase();
  }

  Block &block;
  FusionGroups &map;
  OpBuilder builder;
  IRMapping values; ///< results of groups instead of what is in them
  DenseSet<Operation *> moved;
  int64_t numGroups = 0;
};

struct FormKernels : kerf::impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    Block &block = function.getBody().front();
    FailureOr<FusionGroups> groups = formFusionGroups(block);
    if (failed(groups))
      return signalPassFailure();
    if (exec::TargetAttr::of(function).getMemoryBound())
      recomputeValues(*groups);
    Outliner(block, *groups).run();
  }
};
} // namespace
