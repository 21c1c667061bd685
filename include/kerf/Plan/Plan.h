//===- Plan.h - decide how a function is cut --------------------*- C++ -*-===//
//
// The plan phase: candidates (mesh shapes, stage counts, micro-batches) -> one
// Problem per candidate -> solve -> the cheapest, written back as attributes
// (docs/Partition.md has the contract), with a certificate: cost, proven lower
// bound, and the set of candidates for which it is proven.
//
// Sees ops only through their interfaces.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_PLAN_H
#define KERF_PLAN_PLAN_H

#include "kerf/Cost/Machine.h"
#include "kerf/Cost/Schedule.h"
#include "kerf/Plan/Solvers.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

#include <functional>

namespace kerf::plan {

enum class Objective { Time, Volume };
llvm::StringRef toString(Objective objective);

enum class SolverKind { Auto, BruteForce, Random };

/// What of a training step lies in parts over its axis of data parallelism
/// (`dp`), each with what stands in front of it: ZeRO 1, 2 and 3.
enum class Zero { None, States, Gradients, Parameters };
inline constexpr Zero kZeros[] = {Zero::None, Zero::States, Zero::Gradients,
                                  Zero::Parameters};
/// "none", "1", "2", "3".
llvm::StringRef toString(Zero zero);
std::optional<Zero> parseZero(llvm::StringRef text);
/// "optimizer states", "gradients", "parameters": what is in parts.
llvm::SmallVector<llvm::StringRef> partNames(Zero zero);

/// A wish: values whose name matches `pattern` (a full match of an extended
/// regular expression) get this sharding, in the syntax `[{tp},{}]`; behind it
/// `@1` is the stage that makes them, or that first reads an input or a weight.
struct ShardHint {
  std::string pattern, sharding;
};

/// How far a search is.
struct PlanProgress {
  size_t searched = 0, candidates = 0;
  /// The cheapest plan so far, in the objective's unit, and what any must cost
  /// as far as is known; nothing: no plan yet.
  std::optional<double> best;
  double lowerBound = 0;
};

struct PlanOptions {
  int64_t devices = 1;
  cost::Machine machine;
  /// Fixed degrees, outermost first ("pp" is always outermost); empty: search.
  /// What these leave of the devices is searched, as axes x, y and so on. `dp`
  /// shards only batch dimensions, and every op that has one; `tp` only others,
  /// any other name anything.
  std::vector<std::pair<std::string, int64_t>> mesh;
  Objective objective = Objective::Time;
  cost::VolumeModel volumeModel = cost::VolumeModel::Ring;
  std::optional<int64_t> memoryLimitBytes;
  /// Whether memory is slow beside computing (GPUs), as lowering's target has
  /// it: calls store products of 16 bits in 16 bits, and kernels compute again
  /// what is cheap.
  bool memoryBound = false;
  /// Whether libraries have one step of each kind behind a product
  /// (kerf/Fusion/Epilogue.h), and not any.
  bool fixedEpilogue = false;
  /// Whether blocks of a GPU share long sums (kerf/Fusion/Reductions.h).
  bool sumsByBlock = false;
  std::vector<ShardHint> hints;
  SolverKind solver = SolverKind::Auto;
  uint64_t seed = 0;
  /// For the whole search; 0: none.
  double deadlineSeconds = 0;
  /// Whether that is counted as Effort.h has it, instead of the clock; so are
  /// the times after which a search without a deadline ends.
  bool deadlineIsOfEffort = false;
  /// Bytes of the fullest device as lowering laid it out, for each plan that
  /// was given and did not keep the limit, in their order: the plan is what
  /// Planning::runWithout gives for the last one.
  std::vector<int64_t> rejectedBytes;
  /// Once it is true the search ends with the best plan so far.
  const std::atomic<bool> *stop = nullptr;
  /// Told before each candidate and at the end. No thread of its own.
  std::function<void(const PlanProgress &)> progress;
  /// Which dimension of an argument is the batch, by name; -1: none
  /// (BatchAnalysis says which it is of the others).
  llvm::StringMap<int64_t> batchDims;
  /// Micro-batches per step; nothing: search where there are stages.
  std::optional<int64_t> microBatches;
  /// What the caller calls the option that sets them, for messages.
  std::string microBatchesOption = "micro-batches";
  /// Schedule of a pipeline that trains; nothing: 1F1B unless GPipe is faster,
  /// or, for the objective time, an interleaved one.
  std::optional<cost::ScheduleKind> schedule;
  /// Chunks of each stage in an interleaved schedule, at least 2; nothing: 2, 3
  /// or 4, whichever is best.
  std::optional<int64_t> chunks;
  /// Blocks of a training step that are computed again for the backward pass,
  /// besides what is in the function: nothing where false; where true as many
  /// as make the plan cheapest, if the memory limit binds.
  bool searchRecomputation = false;
  /// What lies in parts over `dp`; with `searchZero` also as much more as makes
  /// the plan cheapest, if the memory limit binds.
  Zero zero = Zero::None;
  bool searchZero = false;
  /// A device may compute any share of the operations, even where the objective
  /// is volume and the mesh is searched.
  bool anyShareOfWork = false;
  /// Parts of a dimension may together be at most this many times as long as
  /// the dimension: 1.25 allows a quarter of padding.
  double maxPadding = 1.25;
};

/// One candidate and how it ended.
struct CandidateSummary {
  std::vector<std::pair<std::string, int64_t>> mesh;
  int64_t microBatches = 1;
  int64_t chunks = 1; ///< of each stage of the best plan found
  /// Of how many blocks one is computed again; 0: of none.
  int64_t recomputeEvery = 0;
  Zero zero = Zero::None;
  Status status = Status::Unknown;
  /// Objective level 0 of the best plan found and the proven bound, in the
  /// objective's unit (seconds, or bytes of the busiest rank).
  double cost = 0, lowerBound = 0;
  double seconds = 0;       ///< predicted step
  int64_t bytesPerRank = 0; ///< busiest rank
  int64_t totalBytes = 0;
  int64_t peakMemoryBytes = 0;
  std::string reason; ///< why there is no plan, where there is none
};

struct StageSummary {
  int64_t index = 0, nodes = 0, flops = 0;
  double seconds = 0;
  /// What it computes of micro-batches, in order, and when of the step; what
  /// runs once per step comes behind that of all stages.
  struct Run {
    cost::Phase phase;
    int64_t microBatch, chunk;
    double beginSeconds, endSeconds;
  };
  std::vector<Run> runs;
};

/// A block of the forward pass that is computed again (Recompute.h).
struct RecomputedBlock {
  std::string first, last; ///< values that it begins and ends with
  double seconds = 0;      ///< of a step: what is computed and moved again
  /// Of its values that are computed again instead of held: bytes of a device,
  /// for each micro-batch.
  int64_t bytes = 0;
};

/// The three pure cuts of the article: what each would send in one training
/// step over all devices, in both volume models.
struct PureCuts {
  cost::Int128 article[3], ring[3]; ///< data, tensor, pipeline
};

struct PlanResult {
  std::vector<std::pair<std::string, int64_t>> mesh; ///< pp first
  int64_t microBatches = 1;
  Objective objective = Objective::Time;
  double cost = 0, lowerBound = 0, gap = 0;
  double stepSeconds = 0, computeSeconds = 0, communicationSeconds = 0;
  double bubbleFraction = 0;
  bool isTraining = false;
  cost::ScheduleKind schedule = cost::ScheduleKind::Forward;
  int64_t chunks = 1;                       ///< of the model in each stage
  std::vector<CandidateSummary> candidates; ///< best first
  std::string candidateSet;                 ///< in words
  std::vector<StageSummary> stages;
  std::vector<RecomputedBlock> recomputed;
  Zero zero = Zero::None;
  PureCuts pureCuts;
  struct Memory {
    int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0,
            workspace = 0, peak = 0;
  };
  std::vector<Memory> memory; ///< per stage
  int64_t parameters = 0, flops = 0, parameterBytes = 0;
  double planningSeconds = 0;
  std::string solver;
  /// Whether the cost of the plan is known; that of a given plan may not be. If
  /// false, seconds, stages and memory are missing.
  bool isPriced = true;
  /// Whether the deadline came before all candidates were searched.
  bool isCutShort = false;
};

/// What can go wrong, by exit code of the driver.
/// Stopped: by PlanOptions::stop, before there was any plan.
enum class PlanError { None, BadRequest, Infeasible, Stopped };

/// Plans the program of the module (dist::findEntry) and writes the plan back
/// onto it. On failure the module is unchanged and `message` says why (one
/// line, then notes); it is empty where an error at an op or a function has
/// said so.
mlir::FailureOr<PlanResult> planModule(mlir::ModuleOp module,
                                       const PlanOptions &options,
                                       PlanError &error, std::string &message);

class StepPlanner;
struct Explanation;

/// A search that can go on: what is laid out for a plan is known once it is
/// lowered, and where that is more than the limit, the next best plan is asked
/// for.
class Planning {
public:
  Planning(mlir::OwningOpRef<mlir::ModuleOp> module,
           const PlanOptions &options);
  ~Planning();

  /// The module that is planned; nothing is written onto it.
  mlir::ModuleOp getModule() const { return module.get(); }
  /// As planModule(); the plan is written onto `target`, a copy of the module.
  mlir::FailureOr<PlanResult> run(mlir::ModuleOp target, PlanError &error,
                                  std::string &message);
  /// The best plan other than those that were given before: of another mesh, or
  /// of the same one for less memory. `laidOutBytes`: what the last plan that
  /// was given needs on its fullest device. Failure: there is no other plan,
  /// and `message` says what was found.
  mlir::FailureOr<PlanResult>
  runWithout(int64_t laidOutBytes, mlir::ModuleOp target, std::string &message);
  /// What each choice of an op would cost, given the candidate of the plan that
  /// was given last (Explain.h). Failure: no op, or input, is called `name`,
  /// and `message` says so.
  mlir::FailureOr<Explanation> explain(llvm::StringRef name,
                                       std::string &message);

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PlanOptions options;
  std::unique_ptr<Effort> effort; ///< of all searches
  std::unique_ptr<StepPlanner> planner;
  /// Of a tighter limit, once nothing was found for this one.
  std::unique_ptr<StepPlanner> tighter;
  size_t numTighter = 0; ///< tighter limits that were tried
};

/// Sets the shardings, stages and mesh that a plan.json names. Values that the
/// file does not name are an error, as are names that the module lacks.
/// `result`: what the plan is for this module on the machine of `options`, with
/// neither bound nor candidates; not priced if it cuts an op in a way that
/// planning does not look at.
mlir::LogicalResult applyPlanJson(mlir::ModuleOp module,
                                  const llvm::json::Value &plan,
                                  const PlanOptions &options,
                                  PlanResult &result, std::string &message);

/// The "schedule" of plan.json: kind, micro_batches, chunks if there are
/// several. The kind is "none" where nothing is cut in time or into stages.
llvm::json::Object scheduleToJson(const PlanResult &plan);
/// The "values" of plan.json: name, shape, sharding, operands, stage.
llvm::json::Array valuesToJson(mlir::ModuleOp module, Zero zero);
/// Which of them are parameters of the model: no constants, and no states that
/// only updates read.
llvm::json::Array parameterNames(mlir::ModuleOp module);

} // namespace kerf::plan

#endif // KERF_PLAN_PLAN_H
