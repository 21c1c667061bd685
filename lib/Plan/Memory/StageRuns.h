//===- StageRuns.h - in which order a stage runs its functions --*- C++ -*-===//
//
// A stage runs its prologue, then forward and backward functions in the order
// of its schedule, then its update. In front of each run stands what it takes,
// one value after another. The lives of slots are intervals of these times.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MEMORY_STAGERUNS_H
#define KERF_LIB_PLAN_MEMORY_STAGERUNS_H

#include "kerf/Cost/Schedule.h"

namespace kerf::plan {

/// A function of a stage, by its number in the order in which a micro-batch
/// comes through them: the prologue, the forward functions of the chunks, the
/// backward functions of the chunks from the last to the first, the update.
/// With one stage the backward pass is part of the forward function.
using StageFunction = int;

/// The functions of a stage that holds so many chunks of the model.
struct StageFunctions {
  int64_t chunks = 1;

  static constexpr StageFunction Prologue = 0;
  StageFunction forward(int64_t chunk = 0) const {
    return static_cast<StageFunction>(1 + chunk);
  }
  StageFunction backward(int64_t chunk = 0) const {
    return static_cast<StageFunction>(2 * chunks - chunk);
  }
  StageFunction update() const {
    return static_cast<StageFunction>(2 * chunks + 1);
  }
  int count() const { return update() + 1; }

  bool isForward(StageFunction which) const {
    return 1 <= which && which <= chunks;
  }
  bool isBackward(StageFunction which) const {
    return chunks < which && which < update();
  }
  bool runsOnce(StageFunction which) const {
    return which == Prologue || which == update();
  }
  /// Of a forward or backward function.
  int64_t chunkOf(StageFunction which) const {
    return isForward(which) ? which - 1 : 2 * chunks - which;
  }
};

class StageRuns {
public:
  struct Run {
    StageFunction which;
    int64_t microBatch;
  };

  StageRuns() = default;
  /// `has`: by number, which functions the stage has; it always runs its
  /// forward functions.
  StageRuns(const cost::Schedule &schedule, StageFunctions functions,
            int64_t stage, llvm::ArrayRef<bool> has);

  llvm::ArrayRef<Run> all() const { return runs; }
  int64_t last() const { return static_cast<int64_t>(runs.size()) - 1; }
  /// The run of a function on a micro-batch; prologue and update run once, for
  /// any micro-batch. If the stage lacks the function: run 0 for a prologue,
  /// else the last run.
  int64_t runOf(StageFunction which, int64_t microBatch) const;
  /// When a run works and sends, and when the value of this number among those
  /// that it takes is there.
  static int64_t timeOf(int64_t run) { return run * kTimes + kTimes - 1; }
  static int64_t arrivalAt(int64_t run, int64_t number) {
    return run * kTimes + number;
  }
  /// The last time that what a run of `which` sends must outlive: in training a
  /// message comes back that the receiver sent behind taking it (in its run of
  /// `taker`), in front of a later run (lib/Partition/HoldSends.cpp).
  int64_t heldUntil(int64_t receiver, StageFunction which, StageFunction taker,
                    int64_t microBatch) const;

private:
  static constexpr int64_t kTimes = int64_t(1) << 24; ///< more than values

  /// Where a stage's list has a forward or backward run; -1: nowhere.
  int64_t placeOf(int64_t stage, StageFunction which,
                  int64_t microBatch) const {
    return places[stage][which * numMicroBatches + microBatch];
  }

  StageFunctions functions;
  int64_t stage = 0, numStages = 1, numMicroBatches = 0;
  bool isTraining = false;
  std::vector<Run> runs;
  /// By function and micro-batch; -1: there is none.
  std::vector<int64_t> numbers;
  /// By stage, function and micro-batch, in training.
  std::vector<std::vector<int64_t>> places;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_STAGERUNS_H
