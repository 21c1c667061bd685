//===- CudnnPlans.h - the engines that take a graph of cuDNN ----*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CUDA_CUDNNPLANS_H
#define KERF_RT_DEVICE_CUDA_CUDNNPLANS_H

#include "CudnnDescriptor.h"

#include <vector>

namespace kerf::rt {

/// How one engine executes a graph. The configuration outlives the plan.
struct DnnPlan {
  DnnDescriptor config, plan;
  int64_t workspace; ///< bytes
};

/// At most `most` plans for a finalized graph, best first by cuDNN's
/// heuristics; those of the fallback only where there are no others. Plans that
/// need more than `mostWorkspace` bytes are left out.
std::vector<DnnPlan> makeDnnPlans(const Cudnn &library, dnn::Handle handle,
                                  const DnnDescriptor &graph,
                                  int64_t mostWorkspace, size_t most);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_CUDNNPLANS_H
