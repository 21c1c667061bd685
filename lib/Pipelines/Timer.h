//===- Timer.h - seconds of a phase -----------------------------*- C++ -*-===//
#ifndef KERF_LIB_PIPELINES_TIMER_H
#define KERF_LIB_PIPELINES_TIMER_H

#include "kerf/Pipelines/Compilation.h"

#include <chrono>

namespace kerf {

/// Adds the seconds of a phase to the list when it ends.
class Compilation::Timer {
public:
  Timer(Compilation &compilation, llvm::StringRef phase)
      : compilation(compilation), phase(phase.str()),
        start(std::chrono::steady_clock::now()) {
    if (compilation.options.onPhase)
      compilation.options.onPhase(this->phase);
  }
  ~Timer() {
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    compilation.times.push_back({phase, seconds.count()});
    if (compilation.options.onPhase)
      compilation.options.onPhase("");
  }

private:
  Compilation &compilation;
  std::string phase;
  std::chrono::steady_clock::time_point start;
};

} // namespace kerf

#endif // KERF_LIB_PIPELINES_TIMER_H
