//===- Simulate.h - schedules that must run ---------------------*- C++ -*-===//
#ifndef KERF_UNITTESTS_COST_SIMULATE_H
#define KERF_UNITTESTS_COST_SIMULATE_H

#include "kerf/Cost/Schedule.h"

#include <gtest/gtest.h>

namespace kerf::cost {

/// A schedule that cannot run fails the test, and gives nothing.
inline ScheduleResult simulateOrFail(const Schedule &schedule,
                                     llvm::ArrayRef<StageTimes> times) {
  llvm::Expected<ScheduleResult> result = simulate(schedule, times);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  return *result;
}

} // namespace kerf::cost

#endif // KERF_UNITTESTS_COST_SIMULATE_H
