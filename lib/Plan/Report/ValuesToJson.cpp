//===- ValuesToJson.cpp - parts of plan.json; see PlanJson.cpp ------------===//
#include "../Model/Graph.h"
#include "../WriteBack.h"
#include "PureCuts.h"
#include "ShardingText.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
namespace json = llvm::json;

static dist::ReshardOp sharedReshard(Value value) {
  for (Operation *user : value.getUsers())
    if (auto reshard = dyn_cast<dist::ReshardOp>(user))
      return reshard;
  return {};
}

static json::Array shapeOf(Value value) {
  json::Array shape;
  for (int64_t size : tensorType(value).getShape())
    shape.push_back(size);
  return shape;
}

json::Array kerf::plan::valuesToJson(ModuleOp module, Zero zero) {
  json::Array values;
  auto function = dist::findEntry(module);
  ValueNames names(function);
  ZeroParts parts(function, zero);
  auto gatheredOf = [&](Value value) {
    json::Object gathered;
    for (OpOperand &use : value.getUses())
      if (auto reshard = dyn_cast<dist::ReshardOp>(use.getOwner()))
        if (std::optional<StepPass> pass = parts.passOf(use))
          gathered[nameOf(*pass)] = shardingText(reshard.getTo());
    return gathered;
  };
  auto add = [&](Value value, Attribute sharding) {
    json::Object entry{{"name", names[value].str()},
                       {"shape", shapeOf(value)},
                       {"sharding", shardingText(sharding)}};
    if (parts.isGatheredPerPass(value)) {
      if (json::Object gathered = gatheredOf(value); !gathered.empty())
        entry["gathered"] = std::move(gathered);
    } else if (dist::ReshardOp shared = sharedReshard(value)) {
      entry["shared"] = shardingText(shared.getTo());
    }
    return entry;
  };
  for (BlockArgument argument : function.getArguments())
    values.push_back(add(argument, function.getArgAttr(argument.getArgNumber(),
                                                       dist::kSharding)));
  for (Operation &op : function.getBody().front()) {
    ArrayRef<dist::ShardingAttr> results = dist::getResultShardings(&op);
    if (isa<dist::ReshardOp>(op) || results.empty())
      continue;
    for (OpResult result : op.getResults()) {
      json::Object entry = add(result, results[result.getResultNumber()]);
      json::Object operands;
      for (auto [index, attr] : llvm::enumerate(dist::getOperandShardings(&op)))
        operands[std::to_string(index)] = shardingText(attr);
      if (!operands.empty() && result.getResultNumber() == 0)
        entry["operands"] = std::move(operands);
      if (std::optional<int64_t> stage = dist::findStage(&op))
        entry["stage"] = *stage;
      if (int64_t chunk = dist::getChunk(&op))
        entry["chunk"] = chunk;
      values.push_back(std::move(entry));
    }
  }
  for (int64_t index = 0; index < int64_t(function.getNumResults()); ++index)
    values.push_back(json::Object{
        {"name", "output:" + std::to_string(index)},
        {"sharding",
         shardingText(function.getResultAttr(index, dist::kSharding))}});
  return values;
}

json::Object kerf::plan::scheduleToJson(const PlanResult &plan) {
  bool hasStages = plan.stages.size() > 1;
  StringRef kind = "none";
  if (hasStages || (plan.isTraining && plan.microBatches > 1))
    kind = cost::toString(plan.isTraining ? plan.schedule
                                          : cost::ScheduleKind::Forward);
  json::Object schedule{{"kind", kind}, {"micro_batches", plan.microBatches}};
  if (plan.chunks > 1)
    schedule["chunks"] = plan.chunks;
  return schedule;
}

json::Array kerf::plan::parameterNames(ModuleOp module) {
  json::Array parameters;
  auto function = dist::findEntry(module);
  ValueNames names(function);
  for (Operation &op : function.getBody().front())
    if (isModelParameter(op))
      parameters.push_back(names[op.getResult(0)].str());
  return parameters;
}
