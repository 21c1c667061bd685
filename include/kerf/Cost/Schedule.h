//===- Schedule.h - pipeline schedules and their makespan -------*- C++ -*-===//
//
// A schedule is, for each stage, its order of work: a static list of (phase,
// micro-batch, chunk). simulate() executes the lists together and gives the
// makespan, the idle time and the activations held; for equal stages and free
// transfers these equal the closed forms of docs/CostModel.md.
//
// Ticks are integers of any unit (the planner uses picoseconds), so comparisons
// are exact. The instruction format also fits zero-bubble schedules (a separate
// Phase::BackwardWeight), but there is no builder for these.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_SCHEDULE_H
#define KERF_COST_SCHEDULE_H

#include "kerf/Cost/Integers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace kerf::cost {

enum class ScheduleKind {
  Forward,  ///< inference: forward only, micro-batches in order
  GPipe,    ///< all forward, then all backward
  OneFOneB, ///< warm-up, then one forward one backward, then drain
  /// 1F1B on stages that hold several chunks of the model each: the virtual
  /// stage k = chunk * numStages + stage is run by stage k mod numStages, so
  /// the pipeline fills with a chunk's time instead of a stage's (Megatron-LM).
  Interleaved,
};
/// "forward", "gpipe", "1f1b", "interleaved".
llvm::StringRef toString(ScheduleKind kind);
std::optional<ScheduleKind> parseScheduleKind(llvm::StringRef name);

enum class Phase { Forward, Backward, BackwardWeight };

struct Instruction {
  Phase phase = Phase::Forward;
  int64_t microBatch = 0;
  int64_t chunk = 0; ///< virtual stage = chunk * numStages + stage
  bool operator==(const Instruction &other) const {
    return phase == other.phase && microBatch == other.microBatch &&
           chunk == other.chunk;
  }
};

/// instructions[stage] in the order of execution.
using Schedule = std::vector<std::vector<Instruction>>;

/// `numStages`, `numMicroBatches` and `numChunks` >= 1. Only Interleaved has
/// several chunks, and its micro-batches are a multiple of the stages: they go
/// through the ring in groups of as many as there are stages.
Schedule buildSchedule(ScheduleKind kind, int64_t numStages,
                       int64_t numMicroBatches, int64_t numChunks = 1);

/// Per micro-batch, in ticks. Indexed by virtual stage.
struct StageTimes {
  int64_t forward = 0;
  int64_t backward = 0;       ///< without the weight part if that is split off
  int64_t backwardWeight = 0; ///< only where BackwardWeight instructions are
  /// The time to send an activation to the next virtual stage, and a gradient
  /// back to this one from it. Transfers overlap compute; the link from one
  /// stage to another carries one message at a time.
  int64_t sendForward = 0, sendBackward = 0;
};

struct ScheduleResult {
  int64_t makespan = 0;
  /// When each instruction of the schedule begins and ends, in its shape.
  struct Span {
    int64_t begin = 0, end = 0;
  };
  std::vector<std::vector<Span>> spans;
  /// Per stage: makespan - time spent working.
  std::vector<int64_t> idle;
  /// Per stage: most micro-batches whose forward is done or running and whose
  /// backward is not finished (BackwardWeight where it is split off), each
  /// chunk's counted by itself. For forward-only schedules 1.
  std::vector<int64_t> activationsHeld;
  /// Mean idle share over stages: sum(idle) / (stages * makespan).
  double bubbleFraction = 0;
};

/// An error if the lists deadlock, or an instruction is missing or occurs
/// twice; the message names the first that can never run. O(instructions).
llvm::Expected<ScheduleResult> simulate(const Schedule &schedule,
                                        llvm::ArrayRef<StageTimes> times);

} // namespace kerf::cost

#endif // KERF_COST_SCHEDULE_H
