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

/// The functions of a stage; with one stage the backward pass is part of
/// Forward.
enum Part { Prologue, Forward, Backward, Update, kParts };

class StageRuns {
public:
  struct Run {
    Part part;
    int64_t microBatch;
  };

  StageRuns() = default;
  /// `has`: which functions the stage has; it always runs Forward.
  StageRuns(const cost::Schedule &schedule, int64_t stage,
            const bool (&has)[kParts]);

  llvm::ArrayRef<Run> all() const { return runs; }
  int64_t last() const { return static_cast<int64_t>(runs.size()) - 1; }
  /// The run of `part` on a micro-batch; prologue and update run once, for any
  /// micro-batch. If the stage lacks the function: run 0 for a prologue, else
  /// the last run.
  int64_t runOf(Part part, int64_t microBatch) const;
  /// When a run works and sends, and when the value of this number among those
  /// that it takes is there.
  static int64_t timeOf(int64_t run) { return run * kTimes + kTimes - 1; }
  static int64_t arrivalAt(int64_t run, int64_t number) {
    return run * kTimes + number;
  }
  /// The last time that what a run sends must outlive: in training a message
  /// comes back that the receiver sent behind taking it, in front of a later
  /// run (lib/Partition/HoldSends.cpp).
  int64_t heldUntil(int64_t receiver, Part part, int64_t microBatch) const;

private:
  static constexpr int64_t kTimes = int64_t(1) << 24; ///< more than values

  cost::Schedule schedule;
  bool isTraining = false;
  std::vector<Run> runs;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_STAGERUNS_H
