//===- StepShares.h - what a pipelined step takes at least ------*- C++ -*-===//
//
// Whatever stages a model is cut into, a step waits for the pipeline to fill
// and to drain. So it takes more than the busiest stage, and by how much more
// at least follows from numbers alone.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_STEPSHARES_H
#define KERF_COST_STEPSHARES_H

#include "kerf/Cost/Schedule.h"

namespace kerf::cost {

/// A step takes at least `perMicroBatch` W + `perStep` U, where W is the time
/// that all stages together work on one micro-batch, forward and backward, and
/// U what runs once per step, of all stages: in any unit, and however W and U
/// are divided over the stages. A step is the schedule's makespan, and then
/// what runs once on the busiest stage.
struct StepShares {
  double perMicroBatch = 1, perStep = 1;
};

/// The shares of a training step by GPipe, 1F1B (which hold for GPipe as well)
/// or the interleaved schedule, which alone has several `chunks` in a stage.
/// All numbers at least 1. Some hundredths of a second at most.
StepShares minShares(ScheduleKind kind, int64_t stages, int64_t microBatches,
                     int64_t chunks = 1);

} // namespace kerf::cost

#endif // KERF_COST_STEPSHARES_H
