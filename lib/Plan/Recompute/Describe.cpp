//===- Describe.cpp - what computing blocks again costs -------------------===//
#include "Describe.h"

#include "../Model/Graph.h"
#include "Blocks.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/ShardingRule.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

std::vector<RecomputedBlock>
kerf::plan::describeRecomputed(func::FuncOp function) {
  return describeRecomputed(function, nullptr, {});
}

std::vector<RecomputedBlock>
kerf::plan::describeRecomputed(func::FuncOp function, Graph *graph,
                               const Solution &solution) {
  std::map<int64_t, RecomputedBlock> blocks; // by colocation
  for (Operation &op : function.getBody().front()) {
    if (!dist::isRecomputed(&op))
      continue;
    RecomputedBlock &block = blocks[dist::getColocation(&op).value_or(0)];
    if (!graph)
      continue;
    Graph::OpCost cost = graph->costOf(solution, &op);
    block.seconds += cost.computeSeconds + cost.moveSeconds;
    for (Value result : op.getResults()) {
      Graph::OpCost shared = graph->sharedCostOf(solution, result);
      block.seconds += shared.computeSeconds + shared.moveSeconds;
      for (StepPass pass : graph->passesOf(result)) {
        Graph::OpCost gathered = graph->passCostOf(solution, result, pass);
        block.seconds += gathered.computeSeconds + gathered.moveSeconds;
      }
      if (llvm::any_of(result.getUsers(), [](Operation *user) {
            return !dist::isRecomputed(user);
          }))
        block.bytes += graph->sharedBytes(solution, result);
    }
  }
  if (blocks.empty())
    return {};
  ValueNames names(function);
  for (Operation *op : forwardOps(function)) {
    auto block = blocks.find(dist::getColocation(op).value_or(-1));
    if (block == blocks.end())
      continue;
    std::string name = names[op->getResult(0)].str();
    if (block->second.first.empty())
      block->second.first = name;
    block->second.last = std::move(name);
  }
  std::vector<RecomputedBlock> list;
  for (auto &[number, block] : blocks)
    list.push_back(std::move(block));
  return list;
}
