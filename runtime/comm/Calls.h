//===- Calls.h - how every back end counts its calls ------------*- C++ -*-===//
//
// Collectives over one set of axes must be called in the same order on all its
// ranks. Each rank numbers its calls and folds their arguments into a running
// hash; equal number and hash mean that all calls so far were equal. All back
// ends share this code, and the count of calls after which a test's fault
// strikes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_CALLS_H
#define KERF_RT_COMM_CALLS_H

#include "Comm.h"
#include "kerf/rt/program.h"

namespace kerf::rt {

/// A hash of calls in their order.
class CallHash {
public:
  void add(uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  /// The `index`-th collective of the manifest, with all that must agree.
  void add(int64_t index, const CollectiveDesc &desc);
  uint64_t value() const { return hash; }

private:
  uint64_t hash = 0;
};

/// One rank's calls over one set of axes.
struct CallOrder {
  uint64_t sequence = 0; ///< of the next call
  CallHash hash;
  int64_t started = 0; ///< not yet waited for

  /// Why a call cannot start now, if so: it is already under way (not `idle`),
  /// or too many calls are.
  std::optional<Error> refusal(int64_t rank, int64_t index,
                               const CollectiveDesc &desc, bool idle) const;
  /// Notes a call and returns its number.
  uint64_t start(int64_t index, const CollectiveDesc &desc) {
    hash.add(index, desc);
    ++started;
    return sequence++;
  }
};

/// With an entry for each collective and channel of the program.
CommCounters countersOf(const WorldSpec &spec);

/// What the sender of a message says of it.
struct MessageOffer {
  int64_t fromRank = 0, bytes = 0, microBatch = 0;
};
/// KERF_MISMATCH: the receiver `rank` of a channel expects the channel's bytes,
/// and those of `microBatch`.
Error offerMismatch(const WorldSpec &spec, int64_t channel,
                    const MessageOffer &offer, int64_t rank,
                    int64_t microBatch);

/// The fault that a test asks of a rank.
class FaultPoint {
public:
  FaultPoint(const std::optional<Injection> &injection, int64_t rank)
      : injection(injection), rank(rank) {}

  /// Counts a call; true if it must be skipped. A rank with fault=hang hangs
  /// until `released()`; one with fault=die throws RankDied.
  bool strikes(const std::function<bool()> &released);

private:
  const std::optional<Injection> &injection;
  int64_t rank, calls = 0;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_CALLS_H
