//===- CudnnPlans.cpp - the engines that take a graph of cuDNN ------------===//
#include "CudnnPlans.h"

#include <algorithm>

using namespace kerf::rt;

std::vector<DnnPlan> kerf::rt::makeDnnPlans(const Cudnn &library,
                                            dnn::Handle handle,
                                            const DnnDescriptor &graph,
                                            int64_t mostWorkspace,
                                            size_t most) {
  std::vector<DnnPlan> made;
  for (int mode : {dnn::HeuristicsA, dnn::HeuristicsFallback}) {
    DnnDescriptor heuristics(library, dnn::EngineHeuristicsDescriptor);
    heuristics.setHandle(dnn::HeuristicsOperationGraph, graph);
    heuristics.setEnum(dnn::HeuristicsMode, dnn::TypeHeuristicsMode, mode);
    if (heuristics.tryFinalize() != dnn::Success)
      continue;
    constexpr int64_t mostConfigs = 12;
    std::vector<DnnDescriptor> configs;
    std::vector<dnn::Descriptor> raw;
    for (int64_t i = 0; i < mostConfigs; ++i) {
      configs.emplace_back(library, dnn::EngineConfigDescriptor);
      raw.push_back(configs.back().get());
    }
    int64_t found = 0;
    if (library.getAttribute(heuristics.get(), dnn::HeuristicsResults,
                             dnn::TypeBackendDescriptor, mostConfigs, &found,
                             raw.data()) != dnn::Success)
      continue;
    found = std::min(found, mostConfigs);
    for (int64_t i = 0; i < found && made.size() < most; ++i) {
      DnnDescriptor plan(library, dnn::ExecutionPlanDescriptor);
      plan.set(dnn::PlanHandle, dnn::TypeHandle, &handle);
      int64_t count = 0, workspace = 0;
      if (plan.trySet(dnn::PlanEngineConfig, dnn::TypeBackendDescriptor,
                      &raw[i]) == dnn::Success &&
          plan.tryFinalize() == dnn::Success &&
          library.getAttribute(plan.get(), dnn::PlanWorkspaceSize,
                               dnn::TypeInt64, 1, &count,
                               &workspace) == dnn::Success &&
          workspace <= mostWorkspace)
        made.push_back({std::move(configs[i]), std::move(plan), workspace});
    }
    if (!made.empty())
      break;
  }
  return made;
}
