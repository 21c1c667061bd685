//===- Statistics.h - run.json and Chrome traces of a session ---*- C++ -*-===//
#ifndef KERF_RUNTIME_REPORT_STATISTICS_H
#define KERF_RUNTIME_REPORT_STATISTICS_H

#include "../execution/Session.h"

namespace kerf::rt {

/// Measured values under the names of plan.json (schema kerf.run/1), per step.
std::string statisticsJson(const Session &session);
/// Events of the last step: one row per rank, times in microseconds.
std::string traceJson(const Session &session);

} // namespace kerf::rt

#endif // KERF_RUNTIME_REPORT_STATISTICS_H
