//===- MemoryResource.cpp - the Problem's resource for memory -------------===//
#include "Graph.h"

#include "../Report/Infeasible.h"

#include "MemoryFloor.h"
#include "Terminator.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

std::vector<int64_t> Graph::bytesOf(Value value,
                                    llvm::ArrayRef<LayoutId> ids) const {
  std::vector<int64_t> bytes;
  for (LayoutId id : ids)
    bytes.push_back(sizeBytes(plan::localType(tensorType(value), layouts[id])));
  return bytes;
}

/// Whether some choice is forbidden, by a hint or by `--explain`.
static bool hasForbidden(const CostTable &costs) {
  for (size_t choice = 0; choice < costs.size(); ++choice)
    if (costs.isForbidden(choice))
      return true;
  return false;
}

bool Graph::mayAllBeOwn(LayoutList own, LayoutList wanted) {
  auto [known, isNew] = ownedLayouts.try_emplace({own, wanted}, false);
  if (!isNew)
    return known->second;
  llvm::DenseSet<LayoutId> given(own->begin(), own->end());
  return known->second = llvm::all_of(*wanted, [&](LayoutId id) {
           return layouts[id].isPartial() || given.contains(id);
         });
}

/// An immutable parameter is brought to its reader's layout at load, and only
/// that is stored. So a choice that keeps the parameter whole may take the
/// bytes of a shard. If the reader's layout is a choice of the parameter, too,
/// another plan of the same cost takes that choice, and each choice may count
/// its own bytes. Otherwise (the layout is none of the choices, or a hint or
/// --explain rules it out) every choice may be stored in the reader's layouts.
std::optional<int64_t> Graph::minStoredBytes(Value source,
                                             int64_t bytesPerElement) {
  int64_t fullyCut = tensorType(source).getNumElements() * bytesPerElement /
                     candidate.devicesPerStage();
  bool isForced = false;
  for (Value held = source; Operation *def = held.getDefiningOp();) {
    const OpNode &own = ops.find(def)->second;
    const CostTable &costs = problem.nodes[own.node].costs;
    isForced |= hasForbidden(costs);
    auto uses = llvm::make_filter_range(
        held.getUses(), [](OpOperand &use) { return !isAssignTarget(use); });
    auto reader =
        uses.empty() ? ops.end() : ops.find((*uses.begin()).getOwner());
    if (reader == ops.end())
      return isForced ? std::optional(fullyCut) : std::nullopt;
    if (floor.mayBeAtLoad(reader->first)) {
      held = reader->first->getResult(0);
      continue;
    }
    const OpNode &node = reader->second;
    LayoutList given =
        own.choices->results[cast<OpResult>(held).getResultNumber()];
    LayoutList wanted =
        node.choices->operands[(*uses.begin()).getOperandNumber()];
    if (!isForced && mayAllBeOwn(given, wanted))
      return std::nullopt;
    if (held != source)
      return fullyCut;
    llvm::DenseSet<LayoutId> allowed;
    for (auto [choice, id] : llvm::enumerate(*given))
      if (!costs.isForbidden(choice))
        allowed.insert(id);
    std::optional<int64_t> min;
    std::vector<int64_t> bytes = bytesOf(source, *wanted);
    for (auto [choice, id] : llvm::enumerate(*wanted))
      if (!problem.nodes[node.node].costs.isForbidden(choice) &&
          !layouts[id].isPartial() && !allowed.contains(id))
        min = std::min(min.value_or(bytes[choice]), bytes[choice]);
    if (min)
      *min = *min / elementBytes(tensorType(source)) * bytesPerElement;
    return min;
  }
  return std::nullopt;
}

std::vector<int64_t> Graph::heldBytes(OpResult result,
                                      int64_t bytesPerElement) const {
  const OpNode &node = ops.find(result.getOwner())->second;
  std::vector<int64_t> amounts =
      bytesOf(result, *node.choices->results[result.getResultNumber()]);
  for (int64_t &amount : amounts)
    amount = amount / elementBytes(tensorType(result)) * bytesPerElement;
  return amounts;
}

std::vector<int64_t> Graph::parameterBytes(OpResult source,
                                           int64_t bytesPerElement) {
  std::vector<int64_t> amounts = heldBytes(source, bytesPerElement);
  if (std::optional<int64_t> min = minStoredBytes(source, bytesPerElement))
    for (int64_t &amount : amounts)
      amount = std::min(amount, *min);
  return amounts;
}

void Graph::recountParameters() {
  for (const CountedParameter &each : countedParameters)
    problem.resources[Memory].usages[each.usage].amounts =
        parameterBytes(each.source, each.bytesPerElement);
}

Sum Graph::minMemory() {
  int64_t devices = candidate.devicesPerStage(), micro = candidate.microBatches;
  llvm::DenseMap<std::pair<LayoutList, Type>, int64_t> known;
  // The fewest bytes of a value in any layout of the list, if its elements had
  // `bytesPerElement`.
  auto minOf = [&](Value value, LayoutList list, int64_t bytesPerElement) {
    auto [it, isNew] = known.try_emplace({list, tensorType(value)});
    if (isNew)
      it->second = *llvm::min_element(bytesOf(value, *list));
    return it->second / elementBytes(tensorType(value)) * bytesPerElement;
  };
  auto partOf = [&](Value value, int64_t bytesPerElement) {
    return tensorType(value).getNumElements() * bytesPerElement / devices;
  };
  Sum always = 0;
  for (Operation &op : function.getBody().front())
    for (OpResult result : op.getResults())
      if (auto source = dyn_cast<SourceOpInterface>(&op)) {
        HeldSource held = floor.heldOf(result);
        if (held.bytesPerElement == 0)
          continue;
        // An immutable parameter may be stored in a reader's layout.
        always +=
            held.isInLayout && source.isMutable()
                ? minOf(result,
                        choicesFor(&op)->results[result.getResultNumber()],
                        held.bytesPerElement)
                : partOf(result, held.bytesPerElement);
      } else if (isa<dist::AccumulateOp>(op) && micro > 1) {
        always += partOf(result, elementBytes(tensorType(result)));
      }
  for (OpOperand *output : floor.getOutputs())
    always += minOf(output->get(), intern(layoutsOf(output->get())),
                    elementBytes(tensorType(output->get())));
  Sum max = 0;
  for (const Instant &instant : floor.getInstants()) {
    const OpChoices &choices = *choicesFor(instant.product);
    Sum held = instant.othersBytes / (devices * micro);
    for (OpOperand *read : instant.reads)
      held += minOf(read->get(), choices.operands[read->getOperandNumber()],
                    floor.narrowest(read->get()));
    if (instant.isStored) {
      Value result = instant.product->getResult(0);
      held += minOf(result, choices.results[0], floor.narrowest(result));
    }
    max = std::max(max, held);
  }
  return always + max;
}

void Graph::addMemory() {
  std::optional<int64_t> limit = memoryLimitOf(options);
  // The limit of all stages together; each stage is checked after the cut.
  if (limit)
    limit = static_cast<int64_t>(std::min(
        cost::Int128(*limit) * candidate.stages, cost::Int128(kMaxEntry / 2)));
  problem.addResource("memory", limit);
  if (ops.empty())
    return;
  int64_t devices = candidate.devicesPerStage(), micro = candidate.microBatches;
  llvm::ArrayRef<Instant> instants = floor.getInstants();
  int64_t end = std::max<int64_t>(static_cast<int64_t>(instants.size()), 1);
  int64_t always = 0; // whatever is chosen
  for (auto &[op, node] : ops)
    for (OpResult result : op->getResults()) {
      int64_t bytes = 0;
      bool isInLayout = true, isMutable = true;
      if (auto source = dyn_cast<SourceOpInterface>(op)) {
        isMutable = source.isMutable();
        HeldSource held = floor.heldOf(result);
        bytes = held.bytesPerElement;
        isInLayout = held.isInLayout;
      } else if (isa<dist::AccumulateOp>(op) && micro > 1) {
        bytes = elementBytes(tensorType(result));
        isInLayout = result.hasOneUse();
      }
      if (bytes == 0)
        continue;
      if (!isInLayout) {
        always += tensorType(result).getNumElements() * bytes / devices;
        continue;
      }
      if (!isMutable)
        countedParameters.push_back(
            {problem.resources[Memory].usages.size(), result, bytes});
      problem.addUsage(Memory, node.node, {0, end},
                       isMutable ? heldBytes(result, bytes)
                                 : parameterBytes(result, bytes));
    }
  // With several micro-batches, parts of inputs take turns.
  if (candidate.stages == 1 && micro == 1)
    always += floor.minInputBytes() / devices;
  // Of several stages one has the output. While another works that one may do
  // so as well: each stage's peak counts, whenever it is.
  for (OpOperand *operand : floor.getOutputs()) {
    const ValueNode &output = outputs.find(operand)->second;
    problem.addUsage(Memory, output.node, {0, end},
                     bytesOf(operand->get(), *output.layouts));
  }
  const OpNode &any = ops.front().second;
  problem.addUsage(
      Memory, any.node, {0, end},
      std::vector<int64_t>(any.choices->strategies.size(), always));
  llvm::DenseMap<std::pair<LayoutList, Type>, std::vector<int64_t>> known;
  auto bytesUnder = [&](Value value,
                        LayoutList list) -> llvm::ArrayRef<int64_t> {
    auto [it, isNew] = known.try_emplace({list, tensorType(value)});
    if (isNew)
      it->second = bytesOf(value, *list);
    return it->second;
  };
  // At an instant one stage works; the others hold at least nothing.
  for (auto [time, instant] : llvm::enumerate(instants)) {
    const OpNode &node = ops.find(instant.product)->second;
    std::vector<int64_t> amounts(node.choices->strategies.size(),
                                 instant.othersBytes / (devices * micro));
    auto add = [&](Value value, LayoutList list) {
      int64_t wide = elementBytes(tensorType(value));
      int64_t narrow = floor.narrowest(value);
      for (auto [amount, bytes] : llvm::zip(amounts, bytesUnder(value, list)))
        amount += bytes / wide * narrow;
    };
    for (OpOperand *read : instant.reads)
      add(read->get(), node.choices->operands[read->getOperandNumber()]);
    if (instant.isStored)
      add(instant.product->getResult(0), node.choices->results[0]);
    auto at = static_cast<int64_t>(time);
    problem.addUsage(Memory, node.node, {at, at + 1}, amounts);
  }
}

void Graph::addEstimate() {
  problem.addResource("estimate", std::nullopt);
  llvm::DenseMap<Operation *, int64_t> position;
  int64_t end = 0;
  for (Operation &op : function.getBody().front())
    position[&op] = end++;
  auto lastUse = [&](Value value) {
    int64_t last = 0;
    for (Operation *user : value.getUsers())
      last = std::max(last, position[user]);
    return last;
  };
  for (auto &[op, node] : ops)
    for (OpResult result : op->getResults()) {
      Interval live{position[op], lastUse(result) + 1};
      // Inputs and outputs have slots, which nothing else uses.
      if (llvm::any_of(result.getUsers(),
                       [](Operation *user) { return isTerminator(user); }))
        live.begin = 0;
      if (isa<SourceOpInterface>(op)) {
        live = {0, end};
      } else if (isWrittenInPlace(result)) {
        continue;
      } else if (isa<dist::AccumulateOp>(op)) {
        if (candidate.microBatches == 1)
          continue; // the operand itself
        live.begin = 0;
      } else if (auto costed = dyn_cast<OpCostInterface>(op);
                 costed && costed.getCostClass() == CostClass::View) {
        continue; // an alias
      }
      problem.addUsage(
          Estimate, node.node, live,
          bytesOf(result, *node.choices->results[result.getResultNumber()]));
    }
  for (BlockArgument argument : function.getArguments()) {
    const ValueNode &node = arguments[argument];
    problem.addUsage(Estimate, node.node, {0, end},
                     bytesOf(argument, *node.layouts));
  }
}
