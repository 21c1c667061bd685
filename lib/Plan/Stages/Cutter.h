//===- Cutter.h - cutting a sharded function into stages --------*- C++ -*-===//
//
// Where the cuts are is found in Stages.cpp (of steps that train also in
// Balance.cpp), what stages then cost and in which order they run in
// FillIn.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STAGES_CUTTER_H
#define KERF_LIB_PLAN_STAGES_CUTTER_H

#include "StageBytes.h"
#include "Stages.h"

namespace kerf::plan::cutter {

/// The phases of a step whose seconds are counted apart: a micro-batch runs
/// Forward and Backward, a step runs Once (prologue and update) a single time.
enum StepPhase { Forward, Backward, Once, kNumStepPhases };

inline StepPhase stepPhaseOf(dist::Phase phase) {
  switch (phase) {
  case dist::Phase::Forward:
    return Forward;
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return Backward;
  case dist::Phase::Prologue:
  case dist::Phase::Update:
    break;
  }
  return Once;
}

inline StepPhase stepPhaseOf(StepPass pass) {
  return pass == StepPass::Forward ? Forward : Backward;
}

/// The cost of a colocation group or a stage in a step, on one device.
struct Load {
  double compute[kNumStepPhases] = {}, move[kNumStepPhases] = {};
  cost::Int128 scaledBytes =
      0; ///< bytes of a rank, times Graph::getByteScale()
  cost::Int128 flops = 0;

  void add(StepPhase phase, const Graph::OpCost &cost) {
    compute[phase] += cost.computeSeconds;
    move[phase] += cost.moveSeconds;
    scaledBytes += cost.scaledBytes;
    flops += cost.flops;
  }
  void add(const Load &other) {
    for (int phase = 0; phase < kNumStepPhases; ++phase) {
      compute[phase] += other.compute[phase];
      move[phase] += other.move[phase];
    }
    scaledBytes += other.scaledBytes;
    flops += other.flops;
  }
  double seconds() const {
    return compute[0] + compute[1] + compute[2] + move[0] + move[1] + move[2];
  }
};

/// Ops that must be in one stage (../Model/ColocationGroups.h), and what they
/// take.
struct ColocationGroup {
  llvm::SmallVector<mlir::Operation *> ops;
  Load load;
  int64_t sources = 0; ///< bytes of its sources
  int64_t kept = 0;    ///< bytes that its backward ops read of its forward ops
  int64_t live = 0;    ///< bytes of values that it makes
  /// The stages that hints ask for; several: no cut keeps them.
  llvm::SmallVector<int64_t, 1> wanted;
};

class Cutter {
public:
  Cutter(Graph &graph, const Solution &solution, mlir::func::FuncOp function,
         const PlanOptions &options, const CutRequest &request)
      : graph(graph), solution(solution), function(function), options(options),
        request(request), givenPlace(request.placeOf), batch(graph.getBatch()),
        candidate(graph.candidate), micro(candidate.microBatches) {}

  StagePlan run();

private:
  void makeGroups();
  void collect();
  /// What is gathered for a pass of each micro-batch: the pass, the cost, and
  /// the groups that read it, in order.
  void forEachPass(llvm::function_ref<void(StepPass, const Graph::OpCost &,
                                           llvm::ArrayRef<size_t>)>
                       visit);
  void collectCrossing();
  /// What a step of this solution takes at least with so many chunks.
  double minSeconds(const ChunkChoice &choice) const;
  /// `rival`: the plan of fewer chunks, which this one must be faster than to
  /// be worth working out.
  void cutInto(int64_t chunks, const StagePlan *rival);
  /// Takes whichever of two cuts of the same chunks is better.
  void takeBetter(StagePlan other);
  /// The schedules that a step of the plan's chunks may have.
  llvm::SmallVector<cost::ScheduleKind> kindsOfSchedule() const;
  /// Cuts that make a step that trains faster, or these, and what it takes.
  std::pair<std::vector<size_t>, double>
  balance(std::vector<size_t> cuts) const;
  /// By how many bytes it is predicted to be above the memory limit.
  double excessOf(const StagePlan &each) const;
  bool isBetter(const StagePlan &a, const StagePlan &b) const;
  /// Whether hints let a group be in a stage.
  bool mayBeIn(const ColocationGroup &group, size_t place) const {
    auto stage = static_cast<int64_t>(place) % candidate.stages;
    return llvm::all_of(group.wanted,
                        [&](int64_t wanted) { return wanted == stage; });
  }
  /// `isLimited`: without those that are estimated to hold too much.
  std::vector<size_t> placeCuts(bool isLimited);
  /// By place: so many micro-batches it holds at once at least, under any of
  /// the schedules that it may have.
  std::vector<double> heldMicroBatches() const;
  /// The cuts of a given plan; empty if they are not between groups.
  std::vector<size_t> givenCuts();
  /// All of the plan but its memory, which takes as long.
  void fillIn(const std::vector<size_t> &cuts);
  void addMemory();
  void chooseSchedule(const std::vector<Load> &loads,
                      std::vector<cost::StageTimes> &times);
  double sendSeconds(int64_t bytes) const;
  /// How often a value crosses.
  int64_t timesOf(mlir::Value value) const {
    return batch.isOfStep(value) ? 1 : micro;
  }
  size_t firstGroup(mlir::Value value) const {
    size_t first = groups.size();
    for (mlir::Operation *user : value.getUsers())
      if (auto found = groupOf.find(user); found != groupOf.end())
        first = std::min(first, found->second);
    return first;
  }

  Graph &graph;
  const Solution &solution;
  mlir::func::FuncOp function;
  const PlanOptions &options;
  const CutRequest &request;
  llvm::function_ref<int64_t(mlir::Operation *)> givenPlace;
  const BatchAnalysis &batch;
  const MeshCandidate &candidate;
  int64_t micro;
  size_t places = 1; ///< chunks of all stages
  std::vector<ColocationGroup> groups;
  llvm::DenseMap<mlir::Operation *, size_t> groupOf; ///< no sources, no return
  /// Bytes per rank and step over a cut before group i, and seconds.
  std::vector<double> crossing, crossingSeconds;
  /// For `volume`: what a stage sends, exactly.
  std::optional<Crossings> crossings;
  StagePlan plan;
};

} // namespace kerf::plan::cutter

#endif // KERF_LIB_PLAN_STAGES_CUTTER_H
