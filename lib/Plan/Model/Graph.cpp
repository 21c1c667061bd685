//===- Graph.cpp - building the Problem of one candidate mesh -------------===//
#include "Graph.h"

#include "../Report/Infeasible.h"

#include "ColocationGroups.h"
#include "Meshes.h"
#include "Terminator.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/TransferCast.h"

#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Uses of splats as destinations.
static DenseSet<OpOperand *> findFilledInPlace(func::FuncOp function) {
  DenseSet<OpOperand *> found;
  for (auto source : function.getBody().getOps<SourceOpInterface>())
    if (source.isUniform())
      for (OpOperand &use : source->getUses())
        if (auto op = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
            op && op.isDpsInit(&use))
          found.insert(&use);
  return found;
}

bool Graph::hasSeveralUses(Value value) const {
  return llvm::count_if(value.getUses(), [&](OpOperand &use) {
           return !isAssignTarget(use) && !isFilledInPlace(use);
         }) > 1;
}

cost::StepShares kerf::plan::stepWeights(const MeshCandidate &candidate,
                                         const BatchAnalysis &batch,
                                         const PlanOptions &options) {
  if (!batch.isTraining() || candidate.stages == 1 ||
      options.objective != Objective::Time)
    return {static_cast<double>(candidate.microBatches), 1};
  // Of the schedules and numbers of chunks that may be chosen the least.
  cost::StepShares min{INFINITY, INFINITY};
  for (const ChunkChoice &choice : candidate.chunks)
    min = {std::min(min.perMicroBatch, choice.weights.perMicroBatch),
           std::min(min.perStep, choice.weights.perStep)};
  return min;
}

Graph::Graph(func::FuncOp function, const OpRules &rules,
             const MeshCandidate &candidate, const PlanOptions &options,
             const BatchAnalysis &batch, const DimBlocks &dimBlocks,
             const ValueNames &names, const MemoryFloor &floor,
             const Traffic &traffic, const ZeroParts &zero,
             dist::ReshardWays &ways, Effort *effort)
    : candidate(candidate), weights(stepWeights(candidate, batch, options)),
      function(function), rules(rules), options(options), batch(batch),
      dimBlocks(withHints(dimBlocks, function, candidate.mesh, options, names)),
      names(names), wantedStages(stagesOfHints(function, options, names)),
      floor(floor), traffic(traffic), zero(zero),
      filledInPlace(findFilledInPlace(function)),
      byteScale(byteScaleOf(function, candidate)),
      costs(candidate, options.machine, options.volumeModel, layouts, byteScale,
            ways, effort),
      effort(effort) {}

void Graph::build(llvm::function_ref<bool()> isOver) {
  costs.endWhen(isOver);
  llvm::scope_exit built([&] { costs.endWhen({}); });
  addArguments();
  for (Operation &op : function.getBody().front()) {
    if (isTerminator(&op))
      addReturn(&op);
    else if (auto assign = dyn_cast<dist::AssignOp>(op))
      addAssign(assign);
    else
      addOp(&op);
    for (Value result : op.getResults()) {
      for (StepPass pass : passesOf(result))
        addPass(result, pass);
      if (needsSharedNode(result))
        addSharedNode(result);
    }
    unfinished = isOver && isOver();
    if (unfinished)
      error.clear(); // of costs that were not worked out
    if (unfinished || !error.empty())
      return;
  }
  countWork(
      effort, WorkPiece::OpOfStage,
      0.5 * static_cast<double>(problem.nodes.size() + problem.edges.size()));
  addMemory();
  addEstimate();
  if (options.objective == Objective::Volume)
    addFlops();
}

StrategyOptions Graph::strategyOptions() const {
  StrategyOptions result;
  result.batchSize = batch.batchSize();
  result.maxPadding = options.maxPadding;
  return result;
}

StrategyOptions Graph::strategyOptions(Operation *op) const {
  StrategyOptions result = strategyOptions();
  result.batchFactor = batch.batchFactor(op);
  result.sumGroup = batch.sumGroup(op);
  result.closedGroups = batch.closedGroups(op);
  result.reach = dist::getReductionReach(op);
  result.isOfStep = batch.runsOnce(op);
  result.mustCutBatch =
      !result.isOfStep && options.solver != SolverKind::Random;
  result.mayCutMore = zero.mayCut(op);
  result.mustCutMore = zero.isInParts(op);
  return result;
}

StrategyOptions Graph::strategyOptions(Value value) const {
  StrategyOptions result = strategyOptions();
  result.isOfStep = batch.isOfStep(value);
  result.isSum = batch.isSumOverBatch(value) && !result.isOfStep;
  result.blockSizes = dimBlocks.of(value).vec();
  // What is gathered for a pass is not in parts.
  Operation *def = value.getDefiningOp();
  result.mayCutMore = def && zero.mayCut(def) && !zero.isGatheredPerPass(value);
  return result;
}

std::vector<LayoutId> Graph::layoutsOf(Value value) {
  return enumerateLayouts(tensorType(value), batch.batchDim(value), candidate,
                          strategyOptions(value), layouts);
}

Graph::Runs Graph::runsOf(Operation *op) const {
  return isTerminator(op) || batch.runsOnce(op) ? Runs::PerStep
                                                : Runs::PerMicroBatch;
}

dist::Phase kerf::plan::sharedPhase(const BatchAnalysis &batch, Value value) {
  if (!batch.isOfStep(value)) {
    Operation *def = value.getDefiningOp();
    return def ? dist::getPhase(def) : dist::Phase::Forward;
  }
  Operation *def = value.getDefiningOp();
  if (def && batch.runsOnce(def))
    return dist::getPhase(def);
  // In the prologue if a micro-batch needs it.
  bool isEarly = llvm::any_of(value.getUsers(), [&](Operation *user) {
    return !isTerminator(user) &&
           (!batch.runsOnce(user) ||
            dist::getPhase(user) == dist::Phase::Prologue);
  });
  return isEarly ? dist::Phase::Prologue : dist::Phase::Update;
}

Graph::Runs Graph::sharedRuns(Value value) const {
  return batch.isTraining() && dist::runsOncePerStep(sharedPhase(value))
             ? Runs::PerStep
             : Runs::PerMicroBatch;
}

Levels Graph::levelsOf(double seconds, int64_t scaledBytes, int64_t total,
                       Runs runs) const {
  auto often = [&](int64_t amount) {
    return cost::saturate(cost::Int128(amount) * times(runs));
  };
  // Rounded down where weights are not integers, so that the bound stays valid.
  double weight =
      runs == Runs::PerStep ? weights.perStep : weights.perMicroBatch;
  int64_t picoseconds =
      weight == std::floor(weight)
          ? cost::saturate(cost::Int128(cost::toPicoseconds(seconds)) *
                           static_cast<int64_t>(weight))
          : static_cast<int64_t>(
                static_cast<double>(cost::toPicoseconds(seconds)) * weight);
  if (options.objective == Objective::Time)
    return {picoseconds, often(scaledBytes), often(total)};
  return {often(scaledBytes), often(total), picoseconds};
}

void Graph::addArguments() {
  for (BlockArgument argument : function.getArguments()) {
    ValueNode node;
    node.layouts = intern(layoutsOf(argument));
    node.node = problem.addNode(CostTable::zeros(node.layouts->size()),
                                names[argument].str());
    applyHints(argument, node.node,
               [&](size_t choice) { return (*node.layouts)[choice]; });
    arguments[argument] = node;
    if (hasSeveralUses(argument))
      addSharedNode(argument);
  }
}

const OpChoices *Graph::choicesKeepingLayout(Operation *op) {
  ValueNode from = providerOf(op->getOperand(0), true);
  bool sums = isa<dist::AccumulateOp>(op);
  // The sum of one micro-batch is reduced behind it, in the type in which
  // gradients are sent.
  bool inParts = zero.addsParts(op) && candidate.microBatches > 1;
  auto &known = choicesOfKeptLayout[{
      from.layouts, op->getOperandTypes()[0].getAsOpaquePointer(),
      op->getResultTypes()[0].getAsOpaquePointer(), sums + inParts}];
  if (!known) {
    auto choices = std::make_unique<OpChoices>();
    if (inParts) {
      StrategyOptions cut = strategyOptions(op->getResult(0));
      cut.mustCutMore = true;
      choices->strategies = sumInPartsStrategies(
          *from.layouts,
          enumerateLayouts(tensorType(op->getResult(0)), std::nullopt,
                           candidate, cut, layouts),
          candidate, layouts);
    } else {
      choices->strategies =
          asMadeStrategies(*from.layouts, sums, candidate, layouts);
    }
    for (const Strategy &strategy : choices->strategies)
      choices->totals.push_back(totalsOf(op, strategy));
    known = own(std::move(choices), op);
  }
  return known;
}

/// A source that lies whole on every device, whatever its rule says.
static bool isPlacedWhole(Operation *op) {
  auto source = dyn_cast<SourceOpInterface>(op);
  return source && !source.isUniform() && !source.isStoredInParts();
}

ShardingRule Graph::placementRule(Operation *op) const {
  return isPlacedWhole(op) ? replicatedShardingRule(op) : rules.of(op);
}

const OpChoices *Graph::choicesFor(Operation *op) {
  if (isa<dist::AccumulateOp>(op) || isTransferCast(op))
    return choicesKeepingLayout(op);
  StrategyOptions given = strategyOptions(op);
  auto keyOf = [&](const StrategyOptions &o) {
    return std::make_tuple(o.batchFactor.value_or(~0u),
                           o.sumGroup.value_or(~0u), o.isOfStep, o.reach,
                           o.closedGroups, o.mayCutMore, o.mustCutMore);
  };
  // Of a source, name and offset do not matter, uniformity does.
  auto source = dyn_cast<SourceOpInterface>(op);
  bool isWhole = isPlacedWhole(op);
  ShardingRule rule = placementRule(op);
  auto isAlike = [&](Operation *other) {
    return source ? other->getName() == op->getName() &&
                        other->getResultTypes() == op->getResultTypes()
                  : isSameComputation(other, op);
  };
  llvm::hash_code hash = llvm::hash_combine(
      given.batchFactor.value_or(~0u), given.sumGroup.value_or(~0u),
      given.isOfStep, isWhole,
      source ? llvm::hash_combine(op->getName(), op->getResultTypes()[0])
             : hashComputation(op));
  auto &bucket = alike[hash];
  for (Alike &known : bucket)
    if (isAlike(known.op) && keyOf(strategyOptions(known.op)) == keyOf(given) &&
        dimBlocks.areAlike(known.op, op) && isSameRule(known.rule, rule) &&
        traffic.of(known.op) == traffic.of(op))
      return known.choices;

  auto choices = std::make_unique<OpChoices>();
  given.blockSizes = dimBlocks.ofFactors(op, rule);
  choices->strategies = enumerateStrategies(rule, candidate, given, layouts);
  for (const Strategy &strategy : choices->strategies)
    choices->totals.push_back(totalsOf(op, strategy));
  countWork(effort, WorkPiece::Choice,
            static_cast<double>(choices->strategies.size() + 1));
  const OpChoices *result = own(std::move(choices), op);
  bucket.push_back({op, rule, result});
  return result;
}

MinTotals Graph::minTotals() {
  MinTotals sums;
  countWork(effort, WorkPiece::OpOfStage,
            static_cast<double>(llvm::range_size(function.getBody().front())));
  for (Operation &op : function.getBody().front()) {
    if (isTerminator(&op) || isa<dist::AssignOp, dist::AccumulateOp>(op) ||
        isTransferCast(&op))
      continue;
    std::optional<int64_t> min;
    for (const OpTotals &totals : choicesFor(&op)->totals) {
      int64_t cost = levelsOf(totals.seconds, 0, 0, runsOf(&op))[0];
      min = std::min(min.value_or(cost), cost);
    }
    (batch.runsOnce(&op) ? sums.perStep : sums.perMicroBatch) +=
        min.value_or(0);
  }
  sums.memory = minMemory();
  return sums;
}

const OpChoices *Graph::own(std::unique_ptr<OpChoices> choices, Operation *op) {
  auto list = [&](auto layoutOf) {
    std::vector<LayoutId> all;
    for (const Strategy &strategy : choices->strategies)
      all.push_back(layoutOf(strategy));
    return intern(std::move(all));
  };
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    choices->operands.push_back(
        list([&](const Strategy &strategy) { return strategy.operands[i]; }));
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    choices->results.push_back(
        list([&](const Strategy &strategy) { return strategy.results[i]; }));
  ownedChoices.push_back(std::move(choices));
  return ownedChoices.back().get();
}

void Graph::addOp(Operation *op) {
  const OpChoices *choices = choicesFor(op);
  CostTable table = CostTable::zeros(choices->strategies.size());
  for (auto [index, totals] : llvm::enumerate(choices->totals))
    table.set(index, levelsOf(totals.seconds, 0, 0, runsOf(op)));
  // What every device fills by itself is no partial sum.
  for (OpOperand &operand : op->getOpOperands())
    if (isFilledInPlace(operand))
      for (auto [index, layout] :
           llvm::enumerate(*choices->operands[operand.getOperandNumber()]))
        if (layouts[layout].isPartial())
          table.forbid(index);
  std::string name = op->getNumResults() ? names[op->getResult(0)].str() : "";
  uint32_t node = problem.addNode(std::move(table), std::move(name));
  ops[op] = {node, choices};
  for (OpResult result : op->getResults())
    applyHints(result, node, [&](size_t choice) {
      return choices->strategies[choice].results[result.getResultNumber()];
    });
  bool stays = isTransferCast(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (isFilledInPlace(operand))
      continue;
    connect(providerOf(operand),
            {node, choices->operands[operand.getOperandNumber()]},
            operand.get(), op, runsOf(op), movesGradient(operand.get(), op),
            isEarly(op), stays || isOfPass(operand));
  }
}

/// The assigned value must be brought to the layout of the source.
void Graph::addAssign(dist::AssignOp op) {
  connect(providerOf(op.getValue(), true), providerOf(op.getSource(), false),
          op.getValue(), op, Runs::PerStep, movesGradient(op.getValue(), op));
}

Graph::ValueNode Graph::providerOf(OpOperand &use) const {
  std::optional<StepPass> pass = zero.passOf(use);
  if (!pass)
    return providerOf(use.get(), true);
  return passNodes.find({use.get(), static_cast<int>(*pass)})->second;
}

Graph::ValueNode Graph::providerOf(Value value, bool throughShared) const {
  if (auto shared = sharedNodes.find(value);
      throughShared && shared != sharedNodes.end())
    return shared->second;
  if (auto argument = arguments.find(value); argument != arguments.end())
    return argument->second;
  auto result = cast<OpResult>(value);
  const OpNode &op = ops.find(result.getOwner())->second;
  return {op.node, op.choices->results[result.getResultNumber()]};
}

void Graph::connect(const ValueNode &from, const ValueNode &to, Value value,
                    Operation *payer, Runs runs, bool isGradient, bool early,
                    bool stays) {
  if (from.node == to.node)
    return;
  RankedTensorType type = tensorType(value);
  auto [it, isNew] = edgeTables.try_emplace(
      {from.layouts, to.layouts, type.getAsOpaquePointer(),
       static_cast<int64_t>(runs), isGradient, early, stays},
      0);
  if (isNew) {
    CostTable table =
        CostTable::zeros(from.layouts->size() * to.layouts->size());
    countWork(effort, WorkPiece::Entry,
              100 * static_cast<double>(table.size()));
    size_t entry = 0;
    for (LayoutId source : *from.layouts)
      for (LayoutId target : *to.layouts) {
        if (source != target) {
          const MoveCost &cost = costs.get(source, target, type, isGradient);
          Levels levels = levelsOf(cost.seconds + cost.localSeconds,
                                   cost.scaledBytes, cost.totalBytes, runs);
          levels[options.objective == Objective::Time ? 0 : 1] +=
              early && cost.totalBytes > 0;
          if (cost.possible && !stays)
            table.set(entry, levels);
          else
            table.forbid(entry);
        }
        ++entry;
      }
    it->second = problem.addTable(std::move(table));
  }
  problem.addEdge({from.node, to.node}, it->second);
  payers.push_back({value, payer});
}

Problem Graph::problemOf(const llvm::DenseSet<Operation *> &inside) const {
  Problem part;
  for (const Problem::Node &node : problem.nodes)
    part.addNode(CostTable(node.costs.levels[0]));
  for (const CostTable &table : problem.tables)
    part.addTable(CostTable(table.levels[0]));
  for (auto [edge, payer] : llvm::zip(problem.edges, payers)) {
    auto isInside = [&](Operation *op) { return inside.contains(op); };
    // A source or input is brought to its shared layout in each stage that uses
    // it.
    if (payer.second ? isInside(payer.second)
                     : llvm::any_of(payer.first.getUses(), [&](OpOperand &use) {
                         return !isAssignTarget(use) &&
                                isInside(use.getOwner());
                       }))
      part.addEdge(edge.nodes, edge.table);
  }
  llvm::DenseSet<uint32_t> nodes;
  for (auto &[op, node] : ops)
    if (inside.contains(op))
      nodes.insert(node.node);
  for (const Problem::Resource &resource : problem.resources) {
    if (resource.name != "flops" || !resource.limit)
      continue;
    uint32_t flops =
        part.addResource(resource.name, *resource.limit / candidate.stages);
    for (const Problem::Usage &usage : resource.usages)
      if (nodes.contains(usage.node))
        part.addUsage(flops, usage.node, usage.live, usage.amounts);
  }
  return part;
}

/// A value that ZeRO gathers once per step is gathered for all uses together,
/// even if there is only one. A value that it gathers for each pass has a
/// gather for each, and its other uses read the parts.
bool Graph::needsSharedNode(Value value) const {
  if (zero.isGatheredPerPass(value))
    return false;
  return zero.isGatheredOnce(value) || hasSeveralUses(value);
}

SmallVector<StepPass> Graph::passesOf(Value value) const {
  SmallVector<StepPass> passes;
  if (zero.isGatheredPerPass(value))
    for (StepPass pass : kPasses)
      if (llvm::any_of(value.getUses(), [&](OpOperand &use) {
            return zero.passOf(use) == pass;
          }))
        passes.push_back(pass);
  return passes;
}

void Graph::addPass(Value value, StepPass pass) {
  ValueNode from = providerOf(value, false);
  std::vector<LayoutId> all = layoutsOf(value);
  // A value that no axis of data parallelism can cut needs no gathering: its
  // own layouts are read.
  for (LayoutId layout : *from.layouts)
    if (!llvm::is_contained(all, layout))
      all.push_back(layout);
  ValueNode gathered;
  gathered.node = problem.addNode(
      CostTable::zeros(all.size()),
      (names[value] +
       (pass == StepPass::Forward ? " (forward)" : " (backward)"))
          .str());
  gathered.layouts = intern(std::move(all));
  Operation *def = value.getDefiningOp();
  connect(from, gathered, value, isa<SourceOpInterface>(def) ? nullptr : def,
          Runs::PerMicroBatch, movesGradient(value, nullptr));
  passNodes[{value, static_cast<int>(pass)}] = gathered;
}

void Graph::addSharedNode(Value value) {
  ValueNode from = providerOf(value, false);
  // A value can be shared in any layout in which it is made, or in any layout
  // that is not partial.
  std::vector<LayoutId> all;
  llvm::DenseSet<LayoutId> seen;
  for (LayoutId layout : *from.layouts)
    if (seen.insert(layout).second)
      all.push_back(layout);
  for (LayoutId layout : layoutsOf(value))
    if (seen.insert(layout).second)
      all.push_back(layout);
  ValueNode shared;
  shared.node = problem.addNode(CostTable::zeros(all.size()),
                                (names[value] + " (shared)").str());
  shared.layouts = intern(std::move(all));
  Operation *def = value.getDefiningOp();
  bool isEverywhere = !def || isa<SourceOpInterface>(def);
  connect(from, shared, value, isEverywhere ? nullptr : def, sharedRuns(value),
          movesGradient(value, nullptr),
          batch.isTraining() && !batch.isOfStep(value));
  sharedNodes[value] = shared;
}

void Graph::addReturn(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    ValueNode output;
    output.layouts = intern(layoutsOf(operand.get()));
    output.node = problem.addNode(CostTable::zeros(output.layouts->size()),
                                  (names[operand.get()] + " (output)").str());
    connect(providerOf(operand.get(), true), output, operand.get(), op,
            batch.isOfStep(operand.get()) ? Runs::PerStep : Runs::PerMicroBatch,
            movesGradient(operand.get(), op));
    outputs[&operand] = output;
  }
}

bool kerf::plan::isWrittenInPlace(OpResult result) {
  return !result.use_empty() &&
         llvm::all_of(result.getUsers(), [](Operation *user) {
           return isa<dist::AssignOp>(user);
         });
}

void Graph::addFlops() {
  // A mesh that the user chose need not divide the work.
  if (isWorkWaived(options))
    return;
  cost::Int128 whole = 0;
  std::vector<std::pair<const OpNode *, std::vector<int64_t>>> usages;
  for (auto &[op, node] : ops) {
    int64_t flops = wholeFlops(op);
    whole += flops;
    if (flops == 0)
      continue;
    std::vector<int64_t> amounts;
    for (const OpTotals &totals : node.choices->totals)
      amounts.push_back(
          cost::saturate(cost::Int128(totals.flops) * timesOf(op)));
    usages.push_back({&node, std::move(amounts)});
  }
  flopsOfModel = whole;
  problem.addResource("flops", std::nullopt);
  limitReplicatedWork(1);
  for (auto &[node, amounts] : usages)
    problem.addUsage(Flops, node->node, {0, 1}, amounts);
}

void Graph::limitReplicatedWork(double share) {
  if (problem.resources.size() <= Flops)
    return;
  auto twice = static_cast<int64_t>(100 * share);
  problem.resources[Flops].limit = cost::saturate(
      flopsOfModel * (1000 + twice) / 1000 / candidate.devicesPerStage());
}
