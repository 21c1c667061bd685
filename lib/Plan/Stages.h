//===- Stages.h - cutting a sharded function into stages --------*- C++ -*-===//
//
// Stages are contiguous runs of ops in program order. Given what each op costs
// under a sharding, dynamic programming places the cuts: for `time` it makes
// the slowest stage (with what it sends) as fast as possible, for `volume` it
// makes the busiest rank's bytes as few as possible among cuts that divide the
// operations. O(stages * ops^2).
//
// With equal micro-batches and stage times t_i the step takes
//     sum_i t_i + (M - 1) max_i t_i,
// so any cut of work T over p stages takes at least T (1 + (M - 1) / p): the
// bound that comes with a pipeline plan.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STAGES_H
#define KERF_LIB_PLAN_STAGES_H

#include "Graph.h"

namespace kerf::plan {

struct StagePlan {
  bool feasible = false;
  std::string reason;
  llvm::DenseMap<mlir::Operation *, int64_t> stageOf; ///< no sources
  std::vector<StageSummary> stages;
  std::vector<PlanResult::Memory> memory;
  double stepSeconds = 0, computeSeconds = 0, communicationSeconds = 0;
  double bubbleFraction = 0;
  int64_t bytesPerRank = 0, totalBytes = 0;
};

/// `solution` must be legal for `graph`. Handles one stage as well.
StagePlan cutStages(Graph &graph, const Solution &solution,
                    mlir::func::FuncOp function, const PlanOptions &options);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STAGES_H
