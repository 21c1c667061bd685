//===- PlanDocument.cpp - plan.json ---------------------------------------===//
#include "PlanDocument.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kerf;
namespace json = llvm::json;

static json::Value exact(cost::Int128 value) {
  // Past 2^53 a JSON number is not exact for most readers.
  if (value <= (cost::Int128(1) << 53))
    return static_cast<int64_t>(value);
  return cost::toString(value);
}

static json::Object
meshObject(const std::vector<std::pair<std::string, int64_t>> &mesh) {
  json::Object object;
  for (const auto &[name, size] : mesh)
    object[name] = size;
  return object;
}

static json::Object pureCutsObject(const plan::PureCuts &cuts) {
  json::Object object;
  const char *names[] = {"data", "tensor", "pipeline"};
  for (int i = 0; i < 3; ++i)
    object[names[i]] = json::Object{{"article_bytes", exact(cuts.article[i])},
                                    {"ring_bytes", exact(cuts.ring[i])}};
  return object;
}

static json::Array candidatesArray(const plan::PlanResult &plan) {
  json::Array array;
  for (const plan::CandidateSummary &candidate : plan.candidates) {
    json::Object entry{{"mesh", meshObject(candidate.mesh)},
                       {"micro_batches", candidate.microBatches},
                       {"status", plan::toString(candidate.status)}};
    if (candidate.chunks > 1)
      entry["chunks"] = candidate.chunks;
    if (candidate.recomputeEvery > 0)
      entry["recompute_every"] = candidate.recomputeEvery;
    if (candidate.zero != plan::Zero::None)
      entry["zero"] = static_cast<int64_t>(candidate.zero);
    if (candidate.reason.empty()) {
      entry["cost"] = candidate.cost;
      entry["step_seconds"] = candidate.seconds;
      entry["bytes_per_rank"] = candidate.bytesPerRank;
      entry["total_bytes"] = candidate.totalBytes;
      entry["peak_memory_bytes"] = candidate.peakMemoryBytes;
      entry["lower_bound"] = candidate.lowerBound;
    } else {
      entry["reason"] = candidate.reason;
      if (candidate.peakMemoryBytes > 0)
        entry["peak_memory_bytes"] = candidate.peakMemoryBytes;
    }
    array.push_back(std::move(entry));
  }
  return array;
}

static json::Array recomputedArray(const plan::PlanResult &plan) {
  json::Array array;
  for (const plan::RecomputedBlock &block : plan.recomputed) {
    json::Object entry{{"first", block.first}, {"last", block.last}};
    if (plan.isPriced) {
      entry["seconds"] = block.seconds;
      entry["bytes"] = block.bytes;
    }
    array.push_back(std::move(entry));
  }
  return array;
}

/// What a stage computes of micro-batches, and when of a step.
static json::Array runsArray(const plan::StageSummary &stage) {
  json::Array runs;
  for (const plan::StageSummary::Run &run : stage.runs) {
    json::Object entry{
        {"phase", run.phase == cost::Phase::Forward ? "forward" : "backward"},
        {"micro_batch", run.microBatch},
        {"begin_seconds", run.beginSeconds},
        {"end_seconds", run.endSeconds}};
    if (run.chunk > 0)
      entry["chunk"] = run.chunk;
    runs.push_back(std::move(entry));
  }
  return runs;
}

std::string kerf::planText(const json::Object &plan) {
  return llvm::formatv("{0:2}\n", json::Value(json::Object(plan))).str();
}

json::Object kerf::planDocument(const CompilationOptions &options,
                                const plan::PlanResult &plan,
                                mlir::ModuleOp module) {
  json::Array inputs;
  auto main = dist::findEntry(module);
  for (unsigned number = 0; number < main.getNumArguments(); ++number)
    if (auto name = main.getArgAttrOfType<mlir::StringAttr>(number, kNameAttr))
      inputs.push_back(name.getValue());
  json::Array axes;
  for (const auto &axis : plan.mesh)
    axes.push_back(axis.first);
  json::Array inParts;
  for (llvm::StringRef name : plan::partNames(plan.zero))
    inParts.push_back(name);
  json::Array stages;
  for (const plan::StageSummary &stage : plan.stages) {
    json::Object entry{
        {"index", stage.index},
        {"devices", options.plan.devices /
                        std::max<int64_t>(int64_t(plan.stages.size()), 1)},
        {"nodes", stage.nodes},
        {"flops", stage.flops},
        {"seconds", stage.seconds}};
    // Of one run there is nothing to say.
    if (plan.stages.size() > 1 || stage.runs.size() > 2)
      entry["runs"] = runsArray(stage);
    stages.push_back(std::move(entry));
  }
  json::Array memory;
  for (const plan::PlanResult::Memory &stage : plan.memory)
    memory.push_back(json::Object{{"parameters", stage.parameters},
                                  {"gradients", stage.gradients},
                                  {"optimizer", stage.optimizer},
                                  {"activations", stage.activations},
                                  {"workspace", stage.workspace},
                                  {"peak", stage.peak}});
  std::optional<int64_t> limit = options.plan.memoryLimitBytes;
  if (!limit && options.plan.machine.memoryBytesPerDevice > 0)
    limit = options.plan.machine.memoryBytesPerDevice;
  cost::Machine whole = options.plan.machine;
  if (options.machineMemoryPerDevice)
    whole.memoryBytesPerDevice = *options.machineMemoryPerDevice;
  llvm::Expected<json::Value> machine = json::parse(cost::writeMachine(whole));
  if (!machine)
    llvm::consumeError(machine.takeError());
  json::Object schedule = plan::scheduleToJson(plan);
  schedule["bubble_fraction"] = plan.bubbleFraction;
  return json::Object{
      {"schema", planSchema.text()},
      {"model", json::Object{{"name", module.getSymName().value_or("")},
                             {"inputs", std::move(inputs)},
                             {"parameters", plan.parameters},
                             {"parameter_names", plan::parameterNames(module)},
                             {"parameter_bytes", plan.parameterBytes},
                             {"flops", plan.flops}}},
      {"goal", plan.isTraining ? "train" : "inference"},
      {"devices", options.plan.devices},
      {"machine", machine ? std::move(*machine) : json::Value(nullptr)},
      {"mesh", meshObject(plan.mesh)},
      {"mesh_axes", std::move(axes)},
      {"precision", autodiff::toString(options.precision)},
      {"gradient_dtype",
       options.training
           ? json::Value(autodiff::gradientDtypeName(*options.training))
           : json::Value(nullptr)},
      {"zero", static_cast<int64_t>(plan.zero)},
      {"in_parts", std::move(inParts)},
      {"recompute", recomputedArray(plan)},
      {"stages", std::move(stages)},
      {"schedule", std::move(schedule)},
      {"objective",
       json::Object{{"kind", plan::toString(plan.objective)},
                    {"cost_model", cost::toString(options.plan.volumeModel)},
                    {"cost", plan.cost},
                    {"lower_bound", plan.lowerBound},
                    {"gap", plan.gap},
                    {"solver", plan.solver},
                    {"candidates", plan.candidateSet}}},
      {"runners_up", candidatesArray(plan)},
      {"pure_cuts", pureCutsObject(plan.pureCuts)},
      {"memory", json::Object{{"limit", limit ? json::Value(*limit)
                                              : json::Value(nullptr)},
                              {"per_device", std::move(memory)}}},
      {"time", json::Object{{"step_seconds", plan.stepSeconds},
                            {"compute_seconds", plan.computeSeconds},
                            {"exposed_communication_seconds",
                             plan.communicationSeconds}}},
      {"values", plan::valuesToJson(module, plan.zero)},
      {"planning_seconds", plan.planningSeconds}};
}

void kerf::noteSent(json::Object &plan) {
  const json::Object *sent = plan.getObject("communication");
  json::Array *candidates = plan.getArray("runners_up");
  if (!sent || !candidates || candidates->empty())
    return;
  json::Object &taken = *candidates->front().getAsObject();
  for (const char *key : {"bytes_per_rank", "total_bytes"})
    if (taken.get(key))
      taken[key] = *sent->get(key);
}

/// Where a given plan comes from, for readers of the document.
static std::string originOf(const CompilationOptions &options) {
  return "taken from " + options.givenPlanPath + ", not searched";
}

json::Object kerf::givenDocument(const CompilationOptions &options,
                                 const plan::PlanResult &plan,
                                 mlir::ModuleOp module) {
  CompilationOptions own = options;
  // No limit was asked for, nothing was searched under one.
  own.plan.memoryLimitBytes.reset();
  json::Object document = planDocument(own, plan, module);
  json::Object objective{
      {"kind", "time"},
      {"cost_model", cost::toString(options.plan.volumeModel)},
      {"solver", plan.solver},
      {"candidates", originOf(options)}};
  if (plan.isPriced)
    objective["cost"] = plan.cost;
  document["objective"] = std::move(objective);
  (*document.getObject("memory"))["limit"] = nullptr;
  for (const char *key : {"runners_up", "planning_seconds"})
    document.erase(key);
  if (plan.isPriced)
    return document;
  for (const char *key : {"time", "stages"})
    document.erase(key);
  document.getObject("schedule")->erase("bubble_fraction");
  // Lowering fills this in.
  json::Array devices;
  for (const auto &[axis, size] : plan.mesh)
    for (int64_t stage = 0; axis == "pp" && stage < size; ++stage)
      devices.push_back(json::Object());
  (*document.getObject("memory"))["per_device"] = std::move(devices);
  return document;
}
