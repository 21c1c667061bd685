//===- Races.h - conflicting accesses that nothing orders -------*- C++ -*-===//
//
// Each lane (a stream, a stream within a graph, a host thread) counts its
// operations; an operation's vector clock says how far into every lane it comes
// after. An access to bytes is fine if the last write to them, and for a write
// also every read since, is within the clock. Bytes are kept as segments, split
// where accesses begin and end.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_CUDA_RECORDING_RACES_H
#define KERF_UNITTESTS_CUDA_RECORDING_RACES_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace recording {

using VectorClock = std::vector<uint32_t>;

inline void join(VectorClock &into, const VectorClock &other) {
  if (into.size() < other.size())
    into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    if (into[i] < other[i])
      into[i] = other[i];
}

struct Range {
  uintptr_t begin = 0, end = 0;
  bool reads = false, writes = false;
};

class RaceChecker {
public:
  /// Notes the access by lane `lane` at `clock`; gives what it conflicts with,
  /// or an empty string.
  std::string access(const Range &range, int lane, const VectorClock &clock,
                     const std::string &what);
  /// The bytes are gone.
  void forget(uintptr_t begin, uintptr_t end);
  void clear() { segments.clear(); }

private:
  struct Access {
    int lane = -1;
    uint32_t time = 0;
    std::string what;
    bool before(const VectorClock &clock) const {
      return lane < 0 ||
             (static_cast<size_t>(lane) < clock.size() && clock[lane] >= time);
    }
  };
  struct Segment {
    uintptr_t end = 0;
    Access write;
    std::vector<Access> reads;
  };
  void split(uintptr_t at);

  std::map<uintptr_t, Segment> segments; ///< by begin
};

} // namespace recording

#endif // KERF_UNITTESTS_CUDA_RECORDING_RACES_H
