//===- Measure.h - how long a function takes here ---------------*- C++ -*-===//
#ifndef KERF_TOOLS_MEASURE_H
#define KERF_TOOLS_MEASURE_H

#include <cstdint>
#include <string>

namespace kerf::tool {

struct Measurement {
  /// Of one rank, by the ops' cost model.
  double flops = 0, bytes = 0;
  /// Medians over steps. `compute`: launches and library calls of the first
  /// rank. `collective`: collectives of the rank that came last to each, so
  /// that waiting for other ranks does not count.
  double computeSeconds = 0, collectiveSeconds = 0;
};

/// Compiles a module as text (nn ops, with shardings if `ranks` > 1), runs it
/// on seeded inputs for about `seconds`, at least `steps` times besides three
/// that do not count, and reads the trace. Weights are ones in a file of its
/// own. Throws.
Measurement measure(const std::string &text, int64_t ranks, int64_t threads,
                    double seconds, int steps);

} // namespace kerf::tool

#endif // KERF_TOOLS_MEASURE_H
