//===- Explain.cpp - what each choice of one op would cost ----------------===//
//
// The candidate of the plan that was found is solved once more for each choice
// of the op, with all its other choices forbidden. Stages are cut and the
// memory limit is kept as in the search, but no cutoff applies, since the
// question is how much more the other choices cost. Afterwards the Problem is
// as it was.
//
//===----------------------------------------------------------------------===//
#include "kerf/Plan/Explain.h"

#include "../EntryFunction.h"
#include "../Planner.h"
#include "ShardingText.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Format/ClosestName.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/OtherNames.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Without a deadline, seconds that all choices may take together; the minimum
/// and the maximum for one.
static constexpr double kAllSeconds = 60, kMinSeconds = 2, kMaxSeconds = 10;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// All values with a choice, in order.
static SmallVector<Value> valuesOf(func::FuncOp function) {
  SmallVector<Value> values(function.getArguments());
  for (Operation &op : function.getBody().front())
    if (!isa<dist::ReshardOp>(op))
      llvm::append_range(values, op.getResults());
  return values;
}

/// The name without its `#NUMBER`, which all but the first value of a name
/// have.
static StringRef baseOf(StringRef name) {
  auto [base, number] = name.rsplit('#');
  bool isNumber = !number.empty() && llvm::all_of(number, llvm::isDigit);
  return isNumber ? base : name;
}

static std::string quoted(ArrayRef<std::string> names, size_t max = 8) {
  std::string text;
  for (const std::string &name : names.take_front(max))
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text + (names.size() > max ? " and others" : "");
}

/// The value of the op with the most operations among those that were made of
/// one node and run in the same phase as `first`, the first of them.
static Value mainOf(Value first, func::FuncOp function,
                    const ValueNames &names) {
  Operation *found = first.getDefiningOp();
  if (!found)
    return first;
  dist::Phase phase = dist::getPhase(found);
  for (Operation &op : function.getBody().front())
    if (op.getNumResults() > 0 && !isa<dist::ReshardOp>(op) &&
        dist::getPhase(&op) == phase &&
        baseOf(names[op.getResult(0)]) == baseOf(names[first]) &&
        wholeFlops(&op) > wholeFlops(found))
      found = &op;
  return found->getResult(0);
}

/// The value that has this name, or the output of the function that has it;
/// null and a message if there is none. `anyNumber`: for a name with
/// a number, the first value of the name will do.
static Value findValue(func::FuncOp function, const ValueNames &names,
                       StringRef name, bool anyNumber, std::string &message) {
  if (Value value = names.find(name))
    return baseOf(name) == name ? mainOf(value, function, names) : value;
  // The first of a name has no number.
  if (Value value =
          name.ends_with("#1") ? names.find(name.drop_back(2)) : Value())
    return value;
  if (Value value = anyNumber ? names.find(baseOf(name)) : Value())
    return value;
  Operation *end = function.getBody().front().getTerminator();
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (auto output =
            function.getResultAttrOfType<StringAttr>(index, kNameAttr);
        output && output.getValue() == name)
      return mainOf(end->getOperand(index), function, names);
  // What is alike: a part of names, or nearly a name.
  std::vector<std::string> all, holding;
  for (Value value : valuesOf(function)) {
    StringRef own = baseOf(names[value]);
    if (own != names[value] && names.find(own))
      continue;
    all.push_back(names[value].str());
    if (own.contains_insensitive(name))
      holding.push_back(names[value].str());
  }
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (auto output =
            function.getResultAttrOfType<StringAttr>(index, kNameAttr);
        output && !llvm::is_contained(all, output.getValue())) {
      all.push_back(output.str());
      if (output.getValue().contains_insensitive(name))
        holding.push_back(output.str());
    }
  message =
      ("option explain: no op, input or output is called '" + name + "'").str();
  std::string close = closestName(name.str(), all);
  if (names.find(baseOf(name)) && baseOf(name) != name) {
    std::vector<std::string> numbered;
    for (Value value : valuesOf(function))
      if (baseOf(names[value]) == baseOf(name))
        numbered.push_back(names[value].str());
    message += "\nnote: there are " + quoted(numbered);
  } else if (std::string stored =
                 storedAs(otherNames(function->getParentOfType<ModuleOp>()),
                          llvm::Regex::escape(name));
             !stored.empty()) {
    message += ": " + stored;
  } else if (holding.size() == 1) {
    message += ", did you mean '" + holding.front() + "'?";
  } else if (!holding.empty()) {
    message += ", which is in " + std::to_string(holding.size()) +
               " names\nnote: " + quoted(holding);
  } else if (!close.empty()) {
    message += ", did you mean '" + close + "'?";
  } else {
    message += noteShared(function, names) + "\nnote: there are " +
               quoted(all, 4) + "; plan.json lists all";
  }
  return {};
}

std::string kerf::plan::checkExplained(ModuleOp module, StringRef name) {
  std::string message;
  func::FuncOp function = entryToPlan(module);
  if (function)
    (void)findValue(function, ValueNames(function), name, /*anyNumber=*/true,
                    message);
  return message;
}

static OpName opNameOf(Value value, const ValueNames &names, bool isTraining) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {names[value].str(), "input", ""};
  return {names[op->getResult(0)].str(), op->getName().getStringRef().str(),
          isTraining ? dist::stringifyPhase(dist::getPhase(op)).str() : ""};
}

//===----------------------------------------------------------------------===//
// What is moved
//===----------------------------------------------------------------------===//

/// What a device sends in a step for what an op reads and makes.
static int64_t bytesAround(Graph &graph, const Solution &solution,
                           Value value) {
  cost::Int128 scaledBytes = 0;
  llvm::DenseSet<Value> seen;
  auto countValue = [&](Value moved) {
    if (!seen.insert(moved).second)
      return;
    scaledBytes += graph.sharedCostOf(solution, moved).scaledBytes;
    for (StepPass pass : graph.passesOf(moved))
      scaledBytes += graph.passCostOf(solution, moved, pass).scaledBytes;
  };
  // Uses that want the same layout share one reshard.
  std::set<std::tuple<void *, LayoutId, int64_t>> wanted;
  auto countUse = [&](OpOperand &use) {
    if (isAssignTarget(use) || graph.isFilledInPlace(use) ||
        graph.isOfPass(use))
      return;
    if (wanted
            .insert({use.get().getAsOpaquePointer(),
                     graph.operandLayout(solution, use), graph.moveTimes(use)})
            .second)
      scaledBytes += graph.moveCostOf(solution, use).scaledBytes;
  };
  SmallVector<Value> made = {value};
  if (Operation *op = value.getDefiningOp()) {
    made.assign(op->result_begin(), op->result_end());
    for (OpOperand &operand : op->getOpOperands()) {
      countValue(operand.get());
      countUse(operand);
    }
  }
  for (Value each : made) {
    countValue(each);
    for (OpOperand &use : each.getUses()) {
      countUse(use);
      // What is assigned to a source is brought to where that lies.
      if (isAssignTarget(use))
        countUse(use.getOwner()->getOpOperand(1));
    }
  }
  int64_t scale = graph.getByteScale();
  return cost::saturate((scaledBytes + scale - 1) / scale);
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

void Planner::force(Attempt &found, uint32_t node, uint32_t choice,
                    double seconds, ExplainedChoice &result) {
  Problem &problem = found.graph->problem;
  CostTable allowed = problem.nodes[node].costs;
  SmallestPlan saved = smallestSeen;
  Attempt forced;
  forced.allowance = found.allowance;
  forced.isFlat = found.isFlat;
  forced.summary.mesh = found.summary.mesh;
  forced.summary.microBatches = found.summary.microBatches;
  if (allowed.isForbidden(choice)) {
    forced.summary.status = Status::Infeasible;
    forced.summary.reason = found.graph->isHinted(node) ? "a hint rules it out"
                                                        : "no plan can have it";
  } else if (isStopped()) {
    forced.summary.reason = "not searched: planning was ended";
  } else if (seconds <= 0) {
    forced.summary.reason = "not searched: the time was over";
  } else {
    for (uint32_t other = 0; other < allowed.size(); ++other)
      if (other != choice)
        problem.nodes[node].costs.forbid(other);
    forced.graph = std::move(found.graph);
    forced.graph->recountParameters();
    double begin = elapsed();
    forced.graph->limitReplicatedWork(1);
    solveAndCut(forced, seconds);
    makeFit(forced, std::max(seconds - (elapsed() - begin), 0.01));
    forced.graph->limitReplicatedWork(1);
    found.graph = std::move(forced.graph);
    problem.nodes[node].costs = std::move(allowed);
    found.graph->recountParameters();
    if (forced.solved.hasSolution())
      result.ownBytes =
          bytesAround(*found.graph, forced.solved.solution, explained);
    else if (std::optional<int64_t> limit = memoryLimitOf(options);
             limit && forced.solved.minNeeded.size() > Graph::Memory) {
      // Memory of all stages together.
      Sum stages = found.graph->candidate.stages;
      Sum min = (forced.solved.minNeeded[Graph::Memory] + stages - 1) / stages;
      if (min > *limit)
        result.minMemory = cost::saturate(min);
    }
  }
  smallestSeen = std::move(saved);
  result.plan = std::move(forced.summary);
  if (result.plan.reason == "nothing fits" &&
      result.plan.status != Status::Infeasible)
    result.plan.reason = "none found";
  if (result.plan.reason == "nothing fits")
    result.plan.reason = result.minMemory > 0
                             ? "a plan that has it needs more than the limit"
                             : "no plan has it";
  // What every plan of the candidate costs, each with this choice does too.
  result.plan.lowerBound =
      std::max(result.plan.lowerBound, found.summary.lowerBound);
}

/// The choices of a node, first what costs least where all other nodes stay as
/// they are in `solution`; what those forbid comes last.
static SmallVector<uint32_t>
byCostBeside(const Problem &problem, const Solution &solution, uint32_t node) {
  size_t count = problem.numChoices(node);
  std::vector<std::pair<Sum, uint32_t>> costs;
  for (uint32_t choice = 0; choice < count; ++choice)
    costs.push_back({problem.nodes[node].costs.at(0, choice), choice});
  for (const Problem::Edge &edge : problem.edges) {
    if (!llvm::is_contained(edge.nodes, node))
      continue;
    SmallVector<uint32_t> choices;
    for (uint32_t other : edge.nodes)
      choices.push_back(solution[other]);
    for (auto &[cost, choice] : costs) {
      for (auto [other, taken] : llvm::zip(edge.nodes, choices))
        taken = other == node ? choice : taken;
      cost += problem.tables[edge.table].at(0, problem.entryOf(edge, choices));
    }
  }
  llvm::sort(costs);
  SmallVector<uint32_t> order;
  for (auto [cost, choice] : costs)
    order.push_back(choice);
  return order;
}

FailureOr<Explanation> Planner::explain(StringRef name, std::string &message) {
  Value value = findValue(function, names, name, /*anyNumber=*/false, message);
  if (!value)
    return failure();
  Attempt &found = *written;
  Explanation result;
  result.op = opNameOf(value, names, isTraining());
  for (Value other : valuesOf(function)) {
    OpName own = opNameOf(other, names, isTraining());
    bool isFirst =
        !other.getDefiningOp() || cast<OpResult>(other).getResultNumber() == 0;
    if (isFirst && own.name != result.op.name &&
        baseOf(own.name) == baseOf(result.op.name))
      result.alike.push_back(own);
  }
  Operation *op = value.getDefiningOp();
  SmallVector<Value> made = {value};
  if (op) {
    made.assign(op->result_begin(), op->result_end());
    for (Value operand : op->getOperands())
      result.reads.push_back(names[operand].str());
  }
  for (Value each : made)
    result.makes.push_back(names[each].str());

  uint32_t node = found.graph->nodeOf(value);
  size_t count = found.graph->problem.numChoices(node);
  double all =
      options.deadlineSeconds > 0 ? options.deadlineSeconds : kAllSeconds;
  double end = elapsed() + all;
  const dist::Mesh &mesh = found.graph->candidate.mesh;
  auto meshAttr = dist::MeshAttr::get(function.getContext(), mesh);
  auto textOf = [&](LayoutId layout) {
    return shardingText(dist::ShardingAttr::get(function.getContext(), meshAttr,
                                                found.graph->layouts[layout]));
  };
  isAlone = true;
  explained = value;
  // The time may not last for all: first what costs least beside the plan.
  for (auto [position, choice] : llvm::enumerate(
           byCostBeside(found.graph->problem, found.solved.solution, node))) {
    ExplainedChoice &one = result.choices.emplace_back();
    Solution with = found.solved.solution;
    one.isChosen = with[node] == choice;
    with[node] = choice;
    if (op)
      for (OpOperand &operand : op->getOpOperands())
        one.operands.push_back(
            textOf(found.graph->operandLayout(with, operand)));
    for (Value each : made)
      one.results.push_back(textOf(found.graph->resultLayout(with, each)));
    if (!one.isChosen) {
      double left = end - elapsed();
      double share = left / static_cast<double>(count - position);
      force(found, node, choice,
            left > 0
                ? std::min(std::clamp(share, kMinSeconds, kMaxSeconds), left)
                : 0,
            one);
      continue;
    }
    one.plan = found.summary;
    one.ownBytes = bytesAround(*found.graph, found.solved.solution, value);
  }
  isAlone = false;
  // Among choices of equal cost the one that was taken comes first.
  llvm::stable_sort(result.choices, [](const ExplainedChoice &a,
                                       const ExplainedChoice &b) {
    auto key = [](const ExplainedChoice &each) {
      return std::make_tuple(!each.plan.reason.empty(),
                             each.plan.status == Status::Infeasible &&
                                 !each.plan.reason.empty(),
                             each.plan.cost, !each.isChosen,
                             double(each.plan.totalBytes), each.plan.seconds);
    };
    return key(a) < key(b);
  });
  return result;
}
