//===- GraphCosts.cpp - costs of a solution, op by op ---------------------===//
//
// The layouts that a solution chose, and what each op computes and moves under
// them. Stages are cut by these costs, and plan.json reports them.
//
//===----------------------------------------------------------------------===//
#include "Graph.h"
#include "Terminator.h"

#include "kerf/Dist/MovePurpose.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

LayoutId Graph::resultLayout(const Solution &solution, Value value) const {
  ValueNode made = providerOf(value, false);
  return (*made.layouts)[solution[made.node]];
}

std::optional<LayoutId> Graph::sharedLayout(const Solution &solution,
                                            Value value) const {
  auto shared = sharedNodes.find(value);
  if (shared == sharedNodes.end())
    return std::nullopt;
  return (*shared->second.layouts)[solution[shared->second.node]];
}

LayoutId Graph::operandLayout(const Solution &solution,
                              OpOperand &operand) const {
  auto output = outputs.find(&operand);
  if (output != outputs.end())
    return (*output->second.layouts)[solution[output->second.node]];
  if (auto assign = dyn_cast<dist::AssignOp>(operand.getOwner()))
    return resultLayout(solution, assign.getSource());
  const OpNode &op = ops.find(operand.getOwner())->second;
  return op.choices->strategies[solution[op.node]]
      .operands[operand.getOperandNumber()];
}

int64_t Graph::localBytes(const Solution &solution, Value value) const {
  return sizeBytes(plan::localType(tensorType(value),
                                   layouts[resultLayout(solution, value)]));
}

int64_t Graph::sharedBytes(const Solution &solution, Value value) const {
  std::optional<LayoutId> shared = sharedLayout(solution, value);
  if (!shared)
    return localBytes(solution, value);
  return sizeBytes(plan::localType(tensorType(value), layouts[*shared]));
}

int64_t Graph::moveTimes(OpOperand &operand) const {
  if (isTerminator(operand.getOwner()))
    return batch.isOfStep(operand.get()) ? 1 : candidate.microBatches;
  return timesOf(operand.getOwner());
}

bool Graph::movesGradient(Value value, Operation *user) {
  dist::PurposeAttr purpose = dist::movePurpose(value.getDefiningOp(), user);
  return purpose && purpose.getValue() == dist::Purpose::Gradient;
}

LayoutId Graph::passLayout(const Solution &solution, Value value,
                           StepPass pass) const {
  const ValueNode &node =
      passNodes.find({value, static_cast<int>(pass)})->second;
  return (*node.layouts)[solution[node.node]];
}

Graph::OpCost Graph::moveCost(LayoutId from, LayoutId to, Value value,
                              bool isGradient, int64_t times) {
  OpCost total;
  if (from == to)
    return total;
  const MoveCost &cost = costs.get(from, to, tensorType(value), isGradient);
  total.computeSeconds = cost.localSeconds * static_cast<double>(times);
  total.moveSeconds = cost.seconds * static_cast<double>(times);
  total.shares = cost.shares * times;
  total.totalBytes = cost.totalBytes * times;
  return total;
}

Graph::OpCost Graph::passCostOf(const Solution &solution, Value value,
                                StepPass pass) {
  return moveCost(resultLayout(solution, value),
                  passLayout(solution, value, pass), value,
                  movesGradient(value, nullptr), candidate.microBatches);
}

Graph::OpCost Graph::moveCostOf(const Solution &solution, OpOperand &operand) {
  if (isAssignTarget(operand) || isOfPass(operand) || isFilledInPlace(operand))
    return {};
  LayoutId from = sharedLayout(solution, operand.get())
                      .value_or(resultLayout(solution, operand.get()));
  return moveCost(from, operandLayout(solution, operand), operand.get(),
                  movesGradient(operand.get(), operand.getOwner()),
                  moveTimes(operand));
}

Graph::OpCost Graph::costOf(const Solution &solution, Operation *op) {
  OpCost total;
  int64_t times = timesOf(op);
  if (auto found = ops.find(op); found != ops.end()) {
    const OpTotals &own =
        found->second.choices->totals[solution[found->second.node]];
    total.computeSeconds = own.seconds * static_cast<double>(times);
    total.flops = own.flops * times;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    OpCost move = moveCostOf(solution, operand);
    total.computeSeconds += move.computeSeconds;
    total.moveSeconds += move.moveSeconds;
    total.shares += move.shares;
    total.totalBytes += move.totalBytes;
  }
  return total;
}

Graph::OpCost Graph::sharedCostOf(const Solution &solution, Value value) {
  std::optional<LayoutId> shared = sharedLayout(solution, value);
  if (!shared)
    return {};
  return moveCost(resultLayout(solution, value), *shared, value,
                  movesGradient(value, nullptr), sharedTimes(value));
}
