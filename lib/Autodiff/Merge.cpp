//===- Merge.cpp - equal sums of the backward pass, made once -------------===//
//
// Problem: a residual block's shortcut and its last BatchNorm have the same
// gradient of the bias. The two sums are equal but for the layers that they
// belong to; later, cut into functions, they would be found equal, and be sent
// once where the plan has counted twice.
//
// Idea: what is planned is what runs. Ops of the backward pass that are equal
// on equal operands become one, which belongs to the layer that is further
// back: its operands are made there or behind, its users lie there or in front.
// Not what is larger than what it is made from, views, and what constants alone
// make: another stage that wants one makes it again.
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

/// A sum, a cast, or whatever else makes no more of what it takes.
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
