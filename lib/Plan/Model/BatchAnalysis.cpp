//===- BatchAnalysis.cpp - following the batch through factors ------------===//
#include "kerf/Plan/BatchAnalysis.h"
#include "Graph.h"
#include "Terminator.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/KerfDialect.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

OpRules::OpRules(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    add(&op, shardingRuleOf(&op));
}

BatchAnalysis::BatchAnalysis(func::FuncOp function,
                             const llvm::StringMap<int64_t> &batchDims,
                             const OpRules &rules)
    : rules(rules) {
  for (Operation &op : function.getBody().front())
    training |= isa<dist::AccumulateOp>(op) ||
                dist::getPhase(&op) != dist::Phase::Forward;
  findClosedGroups(function.getBody().front());
  std::optional<int64_t> common;
  std::optional<ValueNames> names;
  if (!batchDims.empty())
    names.emplace(function);
  bool isTold = false;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    isTold |= bool(function.getArgAttr(i, kBatchDimAttr));
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || type.getRank() == 0)
      continue;
    auto given = names ? batchDims.find((*names)[argument]) : batchDims.end();
    auto told = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                       kBatchDimAttr);
    int64_t dim = given != batchDims.end() ? given->second
                  : told                   ? told.getInt()
                                           : -int64_t(isTold);
    if (dim < 0 || dim >= type.getRank())
      continue;
    if (!common)
      common = type.getDimSize(dim);
    if (type.getDimSize(dim) != *common)
      continue;
    dims[argument] = dim;
  }
  size = common.value_or(1);
  if (size == 1)
    dims.clear(); // one sample cannot be cut
  for (Operation &op : function.getBody().front())
    visit(&op);
  for (Operation &op : llvm::reverse(function.getBody().front()))
    visitBackward(&op);
}

void BatchAnalysis::findClosedGroups(Block &block) {
  Intervals intervals(block);
  for (Operation &op : block) {
    if (!isa<ShardingRuleInterface>(op))
      continue;
    const ShardingRule &rule = rules.of(&op);
    for (unsigned group = 0; group < rule.linearGroups.size(); ++group)
      if (rule.isLinearInTime || !intervals.letsPass(&op, rule, group))
        closed[&op].push_back(group);
  }
}

ArrayRef<unsigned> BatchAnalysis::closedGroups(Operation *op) const {
  auto found = closed.find(op);
  return found == closed.end() ? ArrayRef<unsigned>() : found->second;
}

bool BatchAnalysis::runsOnce(Operation *op) const {
  return training &&
         (isa<dist::AssignOp>(op) || dist::runsOncePerStep(dist::getPhase(op)));
}

bool BatchAnalysis::isOfStep(Value value) const {
  if (!training)
    return false;
  if (Operation *def = value.getDefiningOp())
    return isa<SourceOpInterface, dist::AccumulateOp>(def) || runsOnce(def);
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return !isTerminator(user) && runsOnce(user);
  });
}

std::optional<unsigned> BatchAnalysis::sumGroup(Operation *op) const {
  auto found = groups.find(op);
  return found == groups.end() ? std::nullopt : std::optional(found->second);
}

/// A value that depends on no input but is only used along the batch (a class
/// token that is broadcast over the samples) gets a batch dimension from its
/// uses: each device or micro-batch makes it for its own samples. So does a sum
/// over the batch that is broadcast over the samples again (in the gradient of
/// BatchNorm): devices add up the sum and not what is broadcast. Its uses rule
/// out micro-batches (visit).
void BatchAnalysis::visitBackward(Operation *op) {
  if (!isa<ShardingRuleInterface>(op) || isa<SourceOpInterface>(op) ||
      op->getNumResults() != 1 || factors.contains(op) || op->use_empty() ||
      runsOnce(op))
    return;
  std::optional<int64_t> dim;
  for (OpOperand &use : op->getUses()) {
    auto factor = factors.find(use.getOwner());
    if (factor == factors.end() || runsOnce(use.getOwner()))
      return;
    const ShardingRule &rule = rules.of(use.getOwner());
    std::optional<int64_t> here;
    for (auto [index, list] :
         llvm::enumerate(rule.operands[use.getOperandNumber()]))
      if (!list.empty() && list.front() == factor->second)
        here = static_cast<int64_t>(index);
    if (!here || (dim && *dim != *here))
      return;
    dim = here;
  }
  const ShardingRule &rule = rules.of(op);
  const DimFactors &list = rule.results[0][*dim];
  if (list.empty() || rule.factors[list.front()].kind != FactorKind::Parallel)
    return;
  // A batch inside of another factor cannot be cut into contiguous parts.
  for (const TensorFactors &tensor : rule.operands)
    for (const DimFactors &inside : tensor)
      if (llvm::is_contained(inside, list.front()) &&
          inside.front() != list.front())
        return;
  factors[op] = list.front();
  dims[op->getResult(0)] = *dim;
  groups.erase(op);
  sums.erase(op->getResult(0));
}

/// An op that reads sums over the batch gives a sum over the batch if it is
/// linear in those operands. Closed groups do not matter: gradients that are
/// accumulated over micro-batches are sums of what each of them gives, and what
/// multiplies it (the norm of a weight) is the same in each. Where that is not
/// finite, so is the gradient of a micro-batch in any framework.
void BatchAnalysis::visitSum(Operation *op, ArrayRef<unsigned> summed) {
  const ShardingRule &rule = rules.of(op);
  for (auto [index, group] : llvm::enumerate(rule.linearGroups))
    if (ArrayRef<unsigned>(group) == summed) {
      groups[op] = index;
      for (Value result : op->getResults())
        sums.insert(result);
      return;
    }
  noteBreak(op,
            "needs a sum over the whole batch: what it makes of the sums of "
            "parts does not add up");
}

void BatchAnalysis::visit(Operation *op) {
  bool once = runsOnce(op);
  if (isa<dist::AssignOp>(op)) {
    if (!training)
      noteBreak(op, "writes state, which is one for all of the batch");
    return;
  }
  if (isa<dist::AccumulateOp>(op)) {
    if (!sums.contains(op->getOperand(0)))
      noteBreak(op, "adds up what is no sum over the batch");
    return;
  }
  if (isTerminator(op)) {
    for (Value operand : op->getOperands())
      if (sums.contains(operand))
        noteBreak(op, "gives out a sum over the batch");
    return;
  }
  if (isa_and_nonnull<dist::DistDialect>(op->getDialect()))
    return;
  SmallVector<unsigned> summed;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (sums.contains(operand))
      summed.push_back(index);
  if (!summed.empty() && !once) {
    if (llvm::none_of(op->getOperands(),
                      [&](Value operand) { return dims.contains(operand); }))
      return visitSum(op, summed);
    // This rules out micro-batches; devices may still have samples of their
    // own.
    noteBreak(op, "joins single samples with a sum over the batch");
  }
  const ShardingRule &rule = rules.of(op);
  std::optional<unsigned> factor;
  bool marked = false, agrees = true;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    auto dim = dims.find(operand);
    if (dim == dims.end())
      continue;
    marked = true;
    const DimFactors &list = rule.operands[index][dim->second];
    if (list.empty() || (factor && *factor != list.front()))
      agrees = false;
    else
      factor = list.front();
  }
  if (!marked)
    return;
  // Ops that run once per step see the whole batch, so they never break it.
  auto fail = [&](StringRef reason) {
    if (!once)
      noteBreak(op, reason);
  };
  if (!agrees)
    return fail("needs all of it");
  const Factor &along = rule.factors[*factor];
  if (training && along.kind == FactorKind::Reduction &&
      along.reduction == ReductionKind::Sum) {
    factors[op] = *factor;
    if (!once && dist::getReductionReach(op) == dist::ReductionReach::Batch)
      for (Value result : op->getResults())
        sums.insert(result);
    return;
  }
  if (along.kind != FactorKind::Parallel)
    return fail("needs all of it");
  // Where the batch ends up inside of another factor it cannot be cut in
  // contiguous parts.
  for (const TensorFactors &tensor : rule.results)
    for (const DimFactors &list : tensor)
      if (llvm::is_contained(list, *factor) && list.front() != *factor)
        return fail("needs all of it");
  factors[op] = *factor;
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    for (auto [dim, list] : llvm::enumerate(rule.results[index]))
      if (!list.empty() && list.front() == *factor)
        dims[result] = static_cast<int64_t>(dim);
}

std::optional<int64_t> BatchAnalysis::batchDim(Value value) const {
  auto found = dims.find(value);
  return found == dims.end() ? std::nullopt : std::optional(found->second);
}

std::optional<unsigned> BatchAnalysis::batchFactor(Operation *op) const {
  auto found = factors.find(op);
  return found == factors.end() ? std::nullopt : std::optional(found->second);
}
