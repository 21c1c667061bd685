//===- generate.h - tokens from a decoder's package -------------*- C++ -*-===//
//
// A package that was compiled with a cache (docs/Generate.md) takes one id and
// its position in each step and gives the logits of the next one. This feeds a
// prompt, chooses ids and prints each as it comes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_GENERATE_H
#define KERF_RT_GENERATE_H

#include "kerf/rt/run.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::rt {

/// How an id is chosen from logits.
struct Sampling {
  double temperature = 0; ///< 0: the largest, the first of equal ones
  int64_t topK = 0;       ///< of this many largest alone; 0: of all
  double topP = 1;        ///< of the fewest largest that have this probability
  uint64_t seed = 0;
};

/// Of `count` logits; `draw` is uniform in [0, 1). Those that are NaN are never
/// chosen; -1 if all are.
int64_t chooseToken(const float *logits, int64_t count,
                    const Sampling &sampling, double draw);

struct GenerateOptions {
  std::string package;
  std::string model; ///< that it was compiled from a moment ago, for messages
  std::vector<int64_t> prompt;
  int64_t tokens = 128;
  Sampling sampling;
  std::vector<int64_t> endIds; ///< end before `tokens`; they are printed, too
  std::string statsFile, inject;
  int32_t threads = 0;
  double timeoutSeconds = 30;
  bool json = false;  ///< one JSON object (kerf.generate/1) instead of ids
  bool quiet = false; ///< no speeds
  bool skipHashes = false;
  const std::string &named() const { return model.empty() ? package : model; }
};

/// Prints ids on `out`, speeds and messages on `err`; returns the exit code.
/// See runPackage().
int generate(const GenerateOptions &options, JobScope &job, std::FILE *out,
             const Messages &err);
/// The same in as many processes of this host as the package has ranks.
int generateInProcesses(const GenerateOptions &options, std::FILE *out,
                        const Messages &err);

} // namespace kerf::rt

#endif // KERF_RT_GENERATE_H
