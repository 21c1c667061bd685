//===- Merge.cpp - equal sums of the backward pass, made once -------------===//
//
// Problem: the shortcut of a residual block and its last BatchNorm have the
// same gradient of the bias. The two sums differ only in the layers that they
// belong to; once functions are cut, they would be found equal and sent once,
// where the plan counted two.
//
// Idea: merge before planning, so that the plan is what runs. Two ops of the
// backward pass that are equal and have equal operands become one op, in the
// later of their layers, which the backward pass reaches first. Not merged:
// views, ops whose result is larger than their operands, and computations on
// constants alone. Each stage that needs such a result computes it itself,
// instead of receiving it.
//
// One scan in program order with a table of the ops seen. Linear.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Support/SameOp.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

static int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

/// Whether a result is cheaper to send than to recompute: a sum over
/// micro-batches, a cast, or an op whose results are no larger than its largest
/// operand.
static bool isWorthHandingOn(Operation *op) {
  if (isa<dist::AccumulateOp>(op))
    return true;
  auto costed = dyn_cast<OpCostInterface>(op);
  if (!costed || costed.getCostClass() == CostClass::View)
    return false;
  int64_t max = 0, made = 0;
  for (Value operand : op->getOperands())
    max = std::max(max, bytesOf(operand));
  for (Value result : op->getResults())
    made += bytesOf(result);
  return made <= max || isa<nn::CastOp>(op);
}

void Step::mergeEqualSums() {
  llvm::DenseSet<Operation *, SameOp> seen;
  llvm::DenseSet<Value> fixed;
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Operation &op :
       llvm::make_early_inc_range(body().without_terminator())) {
    bool isFixed = llvm::all_of(op.getOperands(), [&](Value operand) {
      return fixed.contains(operand);
    });
    if (isFixed)
      fixed.insert(op.result_begin(), op.result_end());
    dist::Phase phase = dist::getPhase(&op);
    if (isFixed ||
        (phase != dist::Phase::BackwardInput &&
         phase != dist::Phase::BackwardWeight) ||
        !isWorthHandingOn(&op) ||
        (!isMemoryEffectFree(&op) && !isa<dist::AccumulateOp>(op)))
      continue;
    int64_t number = colocationOf(&op);
    dist::setColocation(&op, std::nullopt);
    auto [it, isNew] = seen.insert(&op);
    int64_t &kept = numbers[*it];
    if (isNew || kept < number)
      kept = number;
    if (isNew)
      continue;
    op.replaceAllUsesWith((*it)->getResults());
    op.erase();
  }
  for (auto [op, number] : numbers)
    dist::setColocation(op, number);
}
