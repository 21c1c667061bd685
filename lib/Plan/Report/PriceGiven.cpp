//===- PriceGiven.cpp - the cost of a given plan --------------------------===//
#include "PriceGiven.h"

#include "../Model/MemoryFloor.h"
#include "../Model/Meshes.h"
#include "../Recompute/Describe.h"
#include "PureCuts.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

PlanResult kerf::plan::describeCut(const Graph &graph, const StagePlan &stages,
                                   func::FuncOp function,
                                   const PlanOptions &options) {
  const MeshCandidate &candidate = graph.candidate;
  PlanResult result;
  result.objective = options.objective;
  if (candidate.stages == 1)
    result.mesh.push_back({"pp", 1});
  for (const dist::MeshAxis &axis : candidate.mesh.axes)
    if (!axis.isTime)
      result.mesh.push_back({axis.name, axis.size});
  result.microBatches = candidate.microBatches;
  result.stepSeconds = stages.stepSeconds;
  result.computeSeconds = stages.computeSeconds;
  result.communicationSeconds = stages.communicationSeconds;
  result.bubbleFraction = stages.bubbleFraction;
  result.isTraining = graph.getBatch().isTraining();
  result.schedule = stages.schedule;
  result.chunks = stages.chunks;
  result.stages = stages.stages;
  result.memory = stages.memory;
  result.zero = graph.getZero().getZero();
  result.pureCuts = pureCuts(function, std::max<int64_t>(options.devices, 2));
  ParameterCount parameters = countParameters(function);
  result.parameters = parameters.elements;
  result.parameterBytes = parameters.bytes;
  result.flops = countFlops(function);
  return result;
}

/// The mesh as a candidate of a search: an axis may cut the dimensions that its
/// name allows, or with `free` any.
static MeshCandidate candidateOf(const dist::Mesh &mesh, bool free) {
  MeshCandidate candidate;
  candidate.mesh = mesh;
  for (auto [number, axis] : llvm::enumerate(mesh.axes)) {
    auto at = static_cast<unsigned>(number);
    AxisRole role = AxisRole::Free;
    if (axis.isTime) {
      candidate.timeAxis = at;
      candidate.microBatches = axis.size;
      role = AxisRole::Fixed;
    } else if (axis.name == "pp") {
      candidate.stageAxis = at;
      candidate.stages = axis.size;
      role = AxisRole::Fixed;
    } else if (!free) {
      role = axis.name == "dp"   ? AxisRole::Batch
             : axis.name == "tp" ? AxisRole::NonBatch
                                 : AxisRole::Free;
    }
    candidate.roles.push_back(role);
  }
  return candidate;
}

/// Adds the block sizes of the plan's values, as hints do, also where it cuts a
/// dimension into parts that do not divide it.
static void addBlocks(DimBlocks &dimBlocks, func::FuncOp function,
                      const GivenLayouts &given) {
  auto add = [&](Value value, const dist::Layout &layout) {
    auto type = cast<RankedTensorType>(value.getType());
    for (auto [dim, axes] : llvm::enumerate(layout.dims)) {
      int64_t parts = dist::numShards(axes), size = type.getDimSize(dim);
      if (int64_t block = layout.block(dim); block || size % parts != 0)
        dimBlocks.add(value, dim,
                      {parts, block ? block : dist::localSize(size, parts)});
    }
  };
  for (BlockArgument argument : function.getArguments())
    add(argument, given.made(argument));
  for (Operation &op : function.getBody().front()) {
    for (Value result : op.getResults())
      add(result, given.made(result));
    if (!isa<dist::AssignOp>(op))
      for (OpOperand &operand : op.getOpOperands())
        add(operand.get(), given.operand(operand));
  }
  dimBlocks.spread();
}

PlanResult kerf::plan::priceGiven(func::FuncOp function,
                                  const GivenLayouts &given,
                                  const PlanOptions &options) {
  PlanOptions own = options;
  // No hints, no limits, and no op must be cut: only the given plan counts.
  own.hints.clear();
  own.mesh.clear();
  own.objective = Objective::Time;
  own.solver = SolverKind::Random;
  own.memoryLimitBytes = std::numeric_limits<int64_t>::max() / 4;
  own.microBatches.reset();
  OpRules rules(function);
  BatchAnalysis batch(function, own.batchDims, rules);
  DimBlocks dimBlocks(function, rules);
  addBlocks(dimBlocks, function, given);
  ValueNames names(function);
  MemoryFloor floor(function, batch.isTraining());
  Traffic traffic(function);
  ZeroParts zero(function, own.zero);
  dist::ReshardWays ways;
  PlanResult result;
  // The choices of a search first, since they are the fewest.
  struct Scope {
    bool free;
    double maxPadding;
  };
  constexpr double kAny = 1e9;
  for (const Scope &scope :
       {Scope{false, own.maxPadding}, {false, kAny}, {true, kAny}}) {
    MeshCandidate candidate = candidateOf(given.mesh, scope.free);
    candidate.chunks = chunkChoices(own, batch.isTraining(), candidate.stages,
                                    candidate.microBatches, kAnyGroups);
    own.maxPadding = scope.maxPadding;
    // As in a search, three free axes would be too many choices.
    if (scope.free && llvm::count(candidate.roles, AxisRole::Free) > 2)
      break;
    Graph graph(function, rules, candidate, own, batch, dimBlocks, names, floor,
                traffic, zero, ways);
    graph.build();
    result = describeCut(graph, StagePlan(), function, own);
    result.recomputed = describeRecomputed(function);
    result.isPriced = false;
    result.solver = "given";
    std::optional<Solution> solution;
    if (graph.getError().empty())
      solution = graph.find(given);
    if (!solution)
      continue;
    CutRequest request;
    request.placeOf = given.place;
    StagePlan stages = cutStages(graph, *solution, function, own, request);
    if (!stages.feasible)
      break;
    result = describeCut(graph, stages, function, own);
    result.recomputed = describeRecomputed(function, &graph, *solution);
    result.cost = result.stepSeconds;
    result.solver = "given";
    break;
  }
  return result;
}

std::optional<Solution> Graph::find(const GivenLayouts &given) {
  Solution solution(problem.nodes.size(), 0);
  auto choose = [&](const ValueNode &node, const dist::Layout &layout) {
    auto found = llvm::find(*node.layouts, layouts.intern(layout));
    solution[node.node] =
        static_cast<uint32_t>(std::distance(node.layouts->begin(), found));
    return found != node.layouts->end();
  };
  for (const auto &[argument, node] : arguments)
    if (!choose(node, given.made(argument)))
      return std::nullopt;
  for (const auto &[value, node] : sharedNodes)
    if (!choose(node, given.shared(value)))
      return std::nullopt;
  for (const auto &[key, node] : passNodes)
    if (!choose(node,
                given.gathered(key.first, static_cast<StepPass>(key.second))))
      return std::nullopt;
  for (const auto &[operand, node] : outputs)
    if (!choose(node, given.operand(*operand)))
      return std::nullopt;
  for (const auto &[op, node] : ops) {
    Strategy wanted;
    for (OpOperand &operand : op->getOpOperands())
      wanted.operands.push_back(layouts.intern(given.operand(operand)));
    for (Value result : op->getResults())
      wanted.results.push_back(layouts.intern(given.made(result)));
    auto found =
        llvm::find_if(node.choices->strategies, [&](const Strategy &strategy) {
          return strategy.operands == wanted.operands &&
                 strategy.results == wanted.results;
        });
    if (found == node.choices->strategies.end())
      return std::nullopt;
    solution[node.node] = static_cast<uint32_t>(
        std::distance(node.choices->strategies.begin(), found));
  }
  return solution;
}
