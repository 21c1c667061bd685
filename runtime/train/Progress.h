//===- Progress.h - the log of a training run -------------------*- C++ -*-===//
//
// train.jsonl: one line per step, whole lines only, flushed, so that it can be
// followed. A resumed run keeps the lines up to the step where it continues. On
// a terminal one line is updated as well.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_PROGRESS_H
#define KERF_RT_TRAIN_PROGRESS_H

#include "Metrics.h"

#include <cstdio>
#include <optional>
#include <string>

namespace kerf::rt {

struct StepReport {
  int64_t step = 0; ///< from 1
  double loss = 0, learningRate = 0, seconds = 0;
  std::optional<double> gradientNorm;
  int64_t bytesPerRank = 0;
  bool skipped = false;
  std::optional<double> lossScale; ///< of a step in float16
};

class Progress {
public:
  /// `log` empty: none. `samples`, `tokens` of a batch (tokens 0: none).
  /// Where a line cannot be written `warnings` gets a line, once, and the run
  /// goes on; later lines are tried again.
  Progress(const std::string &log, int64_t stepsDone, int64_t steps,
           int64_t samples, int64_t tokens, std::FILE *terminal,
           std::FILE *warnings);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void step(const StepReport &report);
  void evaluation(int64_t step, const Metrics &metrics);
  /// Ends the terminal's line, before other text.
  void clear();
  /// The mean, without the first step unless there is no other.
  double secondsPerStep() const;

private:
  void writeLog(const std::string &line);
  std::string path;
  std::FILE *log = nullptr, *terminal = nullptr, *warnings = nullptr;
  int64_t wholeBytes = 0; ///< of the log: whole lines
  bool warned = false;
  int64_t steps, samples, tokens;
  int64_t measured = 0;
  double firstSeconds = 0, measuredSeconds = 0, lastShown = 0;
  bool shown = false;
};

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_PROGRESS_H
