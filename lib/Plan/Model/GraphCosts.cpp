//===- GraphCosts.cpp - costs of strategies and solutions, op by op -------===//
//
// What an op costs under a strategy; the layouts that a solution chose, and
// what each op computes and moves under them. Stages are cut by these costs,
// and plan.json reports them.
//
//===----------------------------------------------------------------------===//
#include "Graph.h"
#include "Terminator.h"

#include "kerf/Dist/MovePurpose.h"
#include "kerf/Interfaces/TransferCast.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// What an op computes with: the type of its first two operands, or the wider
/// one where they differ. More operands are biases, masks, statistics.
static cost::ElementKind elementKindOf(ArrayRef<RankedTensorType> operands) {
  FloatType widest;
  for (RankedTensorType operand : operands.take_front(2))
    if (auto type = dyn_cast<FloatType>(operand.getElementType());
        type && (!widest || type.getWidth() > widest.getWidth()))
      widest = type;
  if (!widest)
    return cost::ElementKind::Other;
  return TypeSwitch<FloatType, cost::ElementKind>(widest)
      .Case([](Float64Type) { return cost::ElementKind::F64; })
      .Case([](Float32Type) { return cost::ElementKind::F32; })
      .Case([](Float16Type) { return cost::ElementKind::F16; })
      .Case([](BFloat16Type) { return cost::ElementKind::BF16; })
      .Default(cost::ElementKind::Other);
}

OpTotals Graph::totalsOf(Operation *op, const Strategy &strategy) const {
  auto costed = dyn_cast<OpCostInterface>(op);
  if (isa<dist::AccumulateOp>(op) && candidate.microBatches > 1) {
    RankedTensorType local = plan::localType(tensorType(op->getResult(0)),
                                             layouts[strategy.results[0]]);
    OpTotals totals;
    totals.seconds =
        cost::computeSeconds(options.machine, cost::ComputeClass::Elementwise,
                             local.getNumElements(), 3 * sizeBytes(local));
    return totals;
  }
  if (!costed)
    return {};
  SmallVector<RankedTensorType> operands, results;
  for (auto [value, layout] : llvm::zip(op->getOperands(), strategy.operands))
    operands.push_back(plan::localType(tensorType(value), layouts[layout]));
  for (auto [value, layout] : llvm::zip(op->getResults(), strategy.results))
    results.push_back(plan::localType(tensorType(value), layouts[layout]));
  OpTotals totals;
  totals.flops = costed.getFlops(operands, results);
  // A cast around a transfer is computed where there is a transfer.
  const OpTraffic all, &own = isTransferCast(op) ? all : traffic.of(op);
  if (costed.getCostClass() == CostClass::View || own.isFree)
    return totals;
  int64_t bytes = costed.getBytesTouched(operands, results);
  for (unsigned i : own.unread.set_bits())
    bytes -= sizeBytes(operands[i]);
  for (unsigned i : own.unwritten.set_bits())
    bytes -= sizeBytes(results[i]);
  auto kind = static_cast<cost::ComputeClass>(costed.getCostClass());
  totals.seconds = cost::computeSeconds(options.machine, kind, totals.flops,
                                        std::max<int64_t>(bytes, 0),
                                        elementKindOf(operands));
  if (!own.isLaunched)
    totals.seconds -= cost::computeSeconds(options.machine, kind, 0, 0);
  return totals;
}

/// Whether every dimension that the layout cuts is one of a factor of its own,
/// and cut over devices alone.
static bool canBeMadeIn(const dist::Layout &layout, const ShardingRule &rule,
                        const MeshCandidate &mesh) {
  auto isOverTime = [&](const dist::AxisRef &slice) {
    return slice.axis == mesh.timeAxis;
  };
  return !layout.isPartial() &&
         llvm::all_of(llvm::zip_equal(layout.dims, rule.results[0]),
                      [&](const auto &dim) {
                        const auto &[axes, factors] = dim;
                        return axes.empty() ||
                               (factors.size() == 1 &&
                                !rule.factors[factors[0]].mustDivide &&
                                llvm::none_of(axes, isOverTime));
                      });
}

std::optional<LayoutId> Graph::layoutOfFill(const Solution &solution,
                                            Value value) const {
  if (!value.hasOneUse() || !isFilledInPlace(*value.use_begin()))
    return std::nullopt;
  LayoutId wanted = operandLayout(solution, *value.use_begin());
  if (!canBeMadeIn(layouts[wanted], rules.of(value.getDefiningOp()), candidate))
    return std::nullopt;
  return wanted;
}

LayoutId Graph::resultLayout(const Solution &solution, Value value) const {
  if (std::optional<LayoutId> layout = layoutOfFill(solution, value))
    return *layout;
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
  total.scaledBytes = cost.scaledBytes * times;
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
    total.scaledBytes += move.scaledBytes;
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
