//===- Team.h - how many threads a call gets --------------------*- C++ -*-===//
//
// One, or all of the rank: libgomp ends threads when a team is smaller than the
// last one and makes new ones for the next, which takes longer than most calls;
// a call on one thread enters no parallel region and leaves the others be.
// Which of the two follows from the call's work alone, so a package's calls
// have the same threads in every run, when they are prepared (oneDNN chooses
// its blocks for them) and when they run.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CPU_TEAM_H
#define KERF_RT_DEVICE_CPU_TEAM_H

#include "../../package/Manifest.h"

namespace kerf::rt {

/// What takes a call its time: operations on floats, and bytes that it reads
/// and writes.
struct Work {
  double flops = 0, bytes = 0;
};
Work workOf(const LibraryDesc &desc);

/// In how many parts a work can be cut of which each is worth a thread. Code
/// generation says the same of its loops: iterations by grain.
double partsOf(const Work &work);
/// Iterations of a loop that are one such part.
int64_t grainOf(const Work &iteration);

/// The threads of one rank.
class Team {
public:
  explicit Team(int32_t threads);
  int32_t threads() const { return all; }
  /// Threads for a call: all if it is more than one part, else one.
  int32_t threadsFor(double parts) const;

private:
  int32_t all;
  bool always; ///< KERF_TEAMS=always: the least call gets all
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_TEAM_H
