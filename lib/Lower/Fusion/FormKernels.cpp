//===- FormKernels.cpp - tensor ops that are computed together ------------===//
//
// Each group of ops that becomes a kernel (FusionGroup.h) becomes an exec.group
// with a copy of them. Results get memory of their own.
//
//===----------------------------------------------------------------------===//
#include "FusionGroup.h"

#include "../Calls.h"
#include "../OpKinds.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"

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

  LogicalResult run() {
    SmallVector<Operation *> before;
    for (Operation &op : block.without_terminator())
      before.push_back(&op);
    SmallVector<int64_t> order = localOrderOf(map);
    if (static_cast<int64_t>(order.size()) !=
        llvm::count_if(map.groups, [](const FusionGroup &group) {
          return !group.ops.empty();
        }))
      return block.getParentOp()->emitError("groups form a cycle");
    for (int64_t group : order)
      if (map.groups[group].isKernel)
        outline(map.groups[group]);
      else
        move(map.groups[group].ops.front());
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      use.set(values.lookupOrDefault(use.get()));
    // All remaining ops but sources are in groups now.
    for (Operation *op : llvm::reverse(before))
      if (!moved.contains(op) && op->use_empty())
        op->erase();
    eraseUnread();
    return success();
  }

private:
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
        builder.getStringAttr(node), phaseOf(last),
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
      // Attributes about the place of a value do not apply inside a group.
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

  /// Removes ops at load whose results are not read.
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
  IRMapping values; ///< from values inside groups to results of the groups
  DenseSet<Operation *> moved;
  int64_t numGroups = 0;
};

/// Readers have copies of their own of what only moves elements
/// (kerf-sink-shape-ops). Where one kernel computes several of them, for calls
/// that read them from memory, it stores one.
void mergeCopies(FusionGroups &map) {
  auto isSame = [](Operation *a, Operation *b) {
    return OperationEquivalence::isEquivalentTo(
        a, b, OperationEquivalence::exactValueMatch, nullptr,
        OperationEquivalence::IgnoreLocations);
  };
  for (FusionGroup &group : map.groups) {
    if (!group.isKernel)
      continue;
    SmallVector<Operation *> kept;
    for (Operation *op : group.ops) {
      auto first = llvm::find_if(
          kept, [&](Operation *other) { return isSame(other, op); });
      if (first == kept.end()) {
        kept.push_back(op);
        continue;
      }
      op->replaceAllUsesWith(*first);
      map.groupOf.erase(op);
      map.position.erase(op);
      op->erase();
    }
    group.ops = std::move(kept);
  }
}

struct FormKernels : kerf::impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<Block *> block = blockOf(function);
    if (failed(block))
      return signalPassFailure();
    if (!*block)
      return;
    FailureOr<FusionGroups> groups = formLocalGroups(**block);
    if (failed(groups))
      return signalPassFailure();
    mergeCopies(*groups);
    if (exec::TargetAttr::of(function).getMemoryBound())
      recomputeValues(*groups);
    if (failed(Outliner(**block, *groups).run()))
      signalPassFailure();
  }
};
} // namespace
