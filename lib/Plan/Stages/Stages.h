//===- Stages.h - cutting a sharded function into stages --------*- C++ -*-===//
//
// Stages are contiguous runs of colocation groups. Forward values then go to
// later stages only and backward values to earlier ones. Given what each op
// costs under a sharding, dynamic programming places the cuts: for `time` it
// makes the slowest stage (with what it sends) as fast as possible, for
// `volume` it makes the busiest rank's bytes as few as possible among cuts that
// divide the operations. O(stages * groups^2). What the plan then sends is
// counted to the byte (StageBytes.h).
//
// In an interleaved schedule each stage holds v chunks, and what is cut are p v
// of these, by the same rules: chunk c of stage s is the part at place c p + s.
//
// The time of a step is that of its schedule (cost::simulate), and then what
// runs once. With stage times t_i and M micro-batches the forward schedule
// takes
//     sum_i t_i + (M - 1) max_i t_i,
// so any cut of work T over p stages takes at least T (1 + (M - 1) / p): the
// bound that comes with a pipeline plan. Training: see stepBound().
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STAGES_STAGES_H
#define KERF_LIB_PLAN_STAGES_STAGES_H

#include "../Model/ColocationGroups.h"

#include "kerf/Cost/Schedule.h"

namespace kerf::plan {

struct StagePlan {
  bool feasible = false;
  std::string reason;
  /// The place of each op among the chunks of all stages, chunk * stages +
  /// stage (the stage where each has one chunk); no sources.
  llvm::DenseMap<mlir::Operation *, int64_t> placeOf;
  int64_t chunks = 1; ///< in each stage
  /// Another number of chunks is faster, and takes more than the memory limit.
  bool isShort = false;
  std::vector<StageSummary> stages;
  std::vector<PlanResult::Memory> memory;
  double stepSeconds = 0, computeSeconds = 0, communicationSeconds = 0;
  double bubbleFraction = 0;
  cost::ScheduleKind schedule = cost::ScheduleKind::Forward;
  int64_t bytesPerRank = 0, totalBytes = 0;
};

/// Bytes that the fullest device is predicted to hold; 0: no cut was found.
int64_t peakOf(const StagePlan &stages);

/// The least seconds of a step, from the least cost of its Problem in seconds.
/// Forward only: see above. Training: Problem and bound are the same, since the
/// Problem of p > 1 stages is weighted (stepWeights()).
double stepBound(const MeshCandidate &candidate, const BatchAnalysis &batch,
                 double seconds);

/// The place (see StagePlan) of each op, and the order in which each stage runs
/// micro-batches.
struct StageMap {
  int64_t stages = 1, chunks = 1, microBatches = 1;
  cost::Schedule schedule;
  llvm::function_ref<int64_t(mlir::Operation *)> placeOf;
};

/// What each device of each stage holds (docs/Plan.md, Memory).
std::vector<PlanResult::Memory> stageMemory(const Graph &graph,
                                            const Solution &solution,
                                            mlir::func::FuncOp function,
                                            const StageMap &map);

/// Places, other than that of its maker, at which a value is used.
llvm::SmallVector<int64_t>
otherPlaces(mlir::Value value, int64_t from,
            llvm::function_ref<int64_t(mlir::Operation *)> placeOf);

/// Why `ops` colocation groups cannot form so many stages of so many chunks;
/// empty if they can. One stage may compute nothing and only give out inputs or
/// constants.
std::string tooFewOps(size_t ops, int64_t stages, int64_t chunks);

/// Which cuts are looked at.
struct CutRequest {
  /// Stages have so many chunks; nothing: as many as the candidate allows.
  std::optional<int64_t> chunks;
  /// More chunks than the least are of interest where they may take less.
  double worthSeconds = std::numeric_limits<double>::infinity();
  /// Of the memory limit: the part that a stage may be predicted to hold.
  double allowance = 1;
  /// Fixed stages and chunks, whose memory is then not limited.
  llvm::function_ref<int64_t(mlir::Operation *)> placeOf = nullptr;
  Effort *effort = nullptr; ///< counts what is done; may be null
};

/// `solution` must be legal for `graph`. Also handles one stage. Of the numbers
/// of chunks the one that keeps the memory limit and is then the fastest.
StagePlan cutStages(Graph &graph, const Solution &solution,
                    mlir::func::FuncOp function, const PlanOptions &options,
                    const CutRequest &request = {});

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STAGES_STAGES_H
