//===- CudnnPlans.cpp - the engines that take a graph of cuDNN ------------===//
#include "CudnnPlans.h"

#include <algorithm>

using namespace kerf::rt;

std::optional<DnnDescriptor>
kerf::rt::makeDnnGraph(const DnnTarget &target,
                       const std::vector<dnn::Descriptor> &operations) {
  DnnDescriptor graph(target.library, dnn::OperationGraphDescriptor);
  if (target.handle)
    graph.set(dnn::GraphHandle, dnn::TypeHandle, &target.handle);
  graph.set(dnn::GraphOps, dnn::TypeBackendDescriptor, operations.data(),
            static_cast<int64_t>(operations.size()));
  if (graph.tryFinalize() != dnn::Success)
    return std::nullopt;
  return graph;
}

/// The number and the notes of a configuration's engine.
static bool readEngine(const Cudnn &library, dnn::Descriptor config,
                       int64_t &number, DnnNotes &notes) {
  DnnDescriptor engine(library, dnn::EngineDescriptor);
  dnn::Descriptor raw = engine.get();
  int64_t count = 0;
  if (library.getAttribute(config, dnn::EngineConfigEngine,
                           dnn::TypeBackendDescriptor, 1, &count,
                           &raw) != dnn::Success ||
      library.getAttribute(raw, dnn::EngineGlobalIndex, dnn::TypeInt64, 1,
                           &count, &number) != dnn::Success)
    return false;
  constexpr int64_t maxNotes = 32;
  int list[maxNotes] = {};
  count = 0;
  if (library.getAttribute(raw, dnn::EngineNumericalNote,
                           dnn::TypeNumericalNote, maxNotes, &count,
                           list) != dnn::Success)
    return false;
  notes = 0;
  for (int64_t i = 0; i < std::min(count, maxNotes); ++i)
    if (list[i] >= 0 && list[i] < 32)
      notes |= noteBit(list[i]);
  return true;
}

std::vector<DnnConfig> kerf::rt::findDnnConfigs(const DnnTarget &target,
                                                const DnnDescriptor &graph,
                                                int mode, DnnNotes refused) {
  const Cudnn &library = target.library;
  DnnDescriptor heuristics(library, dnn::EngineHeuristicsDescriptor);
  heuristics.setHandle(dnn::HeuristicsOperationGraph, graph);
  heuristics.setEnum(dnn::HeuristicsMode, dnn::TypeHeuristicsMode, mode);
  if (target.device)
    heuristics.set(dnn::HeuristicsDevice, dnn::TypeBackendDescriptor,
                   &target.device);
  if (heuristics.tryFinalize() != dnn::Success)
    return {};
  // All engines are listed, those without tensor cores last.
  constexpr int64_t maxConfigs = 96;
  std::vector<DnnDescriptor> configs;
  std::vector<dnn::Descriptor> raw;
  for (int64_t i = 0; i < maxConfigs; ++i) {
    configs.emplace_back(library, dnn::EngineConfigDescriptor);
    raw.push_back(configs.back().get());
  }
  int64_t found = 0;
  if (library.getAttribute(heuristics.get(), dnn::HeuristicsResults,
                           dnn::TypeBackendDescriptor, maxConfigs, &found,
                           raw.data()) != dnn::Success)
    return {};
  std::vector<DnnConfig> kept;
  for (int64_t i = 0; i < std::min(found, maxConfigs); ++i) {
    int64_t engine = 0;
    DnnNotes notes = 0;
    if (!readEngine(library, raw[i], engine, notes) || (notes & refused))
      continue;
    kept.push_back(
        {std::move(configs[i]), engine, cat(mode, ".", i, " engine ", engine)});
  }
  return kept;
}

std::optional<DnnPlan> kerf::rt::makeDnnPlan(const DnnTarget &target,
                                             DnnConfig &config,
                                             int64_t maxWorkspace) {
  DnnDescriptor plan(target.library, dnn::ExecutionPlanDescriptor);
  if (target.handle)
    plan.set(dnn::PlanHandle, dnn::TypeHandle, &target.handle);
  else
    plan.set(dnn::PlanDevice, dnn::TypeBackendDescriptor, &target.device);
  dnn::Descriptor raw = config.config.get();
  int64_t count = 0, workspace = 0;
  if (plan.trySet(dnn::PlanEngineConfig, dnn::TypeBackendDescriptor, &raw) !=
          dnn::Success ||
      plan.tryFinalize() != dnn::Success ||
      target.library.getAttribute(plan.get(), dnn::PlanWorkspaceSize,
                                  dnn::TypeInt64, 1, &count,
                                  &workspace) != dnn::Success ||
      workspace > maxWorkspace)
    return std::nullopt;
  return DnnPlan{std::move(config.config), std::move(plan), workspace};
}

std::optional<DnnPlan> kerf::rt::makeBestDnnPlan(const DnnTarget &target,
                                                 const DnnDescriptor &graph,
                                                 int64_t maxWorkspace,
                                                 DnnNotes refused) {
  for (int mode : {dnn::HeuristicsA, dnn::HeuristicsFallback})
    for (DnnConfig &config : findDnnConfigs(target, graph, mode, refused))
      if (auto plan = makeDnnPlan(target, config, maxWorkspace))
        return plan;
  return std::nullopt;
}
