//===- RankReport.h - a rank's figures for statistics -----------*- C++ -*-===//
//
// A copy of a rank's figures; it travels as bytes from another process.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_RANKREPORT_H
#define KERF_RUNTIME_EXECUTION_RANKREPORT_H

#include "Rank.h"

namespace kerf::rt {

struct RankReport {
  CommCounters counters; ///< seconds are summed over timedSteps
  int64_t stage = 0;
  std::vector<double> instructionSeconds; ///< summed over timedSteps
  /// All steps but the first, where there are others and the device is the
  /// host; 0: all.
  int64_t timedSteps = 0;
  int64_t arenaBytes = 0, workspaceBytes = 0, parameterBytes = 0;
  int64_t sharesDevice = 0;      ///< 1: with other ranks, for testing only
  std::vector<TraceEvent> trace; ///< of the last step
  int64_t droppedEvents = 0;     ///< that had no room in the trace
  std::vector<DeviceSpan> spans; ///< likewise, of a device of its own
  /// Of each step, between the last input and the first output; empty where
  /// the device is the host.
  std::vector<double> deviceSeconds;
  std::vector<Rank::StepSplit> splits; ///< of each step
};

RankReport reportOf(const Rank &rank, bool withTrace);
std::string packReport(const RankReport &report);
/// Throws KERF_MISMATCH unless it is a report about `spec`.
RankReport unpackReport(const std::string &text, const WorldSpec &spec);

} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_RANKREPORT_H
