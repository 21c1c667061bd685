//===- Comm.h - one interface for thread, MPI and NCCL ranks ----*- C++ -*-===//
//
// A World joins all ranks of a mesh; each rank communicates through its own
// Comm, from one thread. All implementations guarantee: collectives over the
// same axes run in the same order on all members (checked by a signature and a
// running hash before data is used), the k-th send on a channel meets the k-th
// receive, every wait has a deadline, and once any rank fails, every call on
// every rank throws the first failure. The conformance suite in
// unittests/Runtime/CollectivesTest.cpp and CommFaultsTest.cpp runs over every
// implementation.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_COMM_H
#define KERF_RT_COMM_COMM_H

#include "Collective.h"

#include <functional>
#include <memory>
#include <optional>

namespace kerf::rt {

/// A numbered pipe from each rank of one stage to its peer in another.
struct ChannelDesc {
  int64_t fromStage = 0, toStage = 0;
  kerf_dtype_t dtype = KERF_F32;
  Shape shape;
  int64_t plannedBytes = -1;
  std::string tensor, node, purpose, phase;
  int64_t bytes() const { return numBytes(shape, dtype); }
};

/// A fault for tests: `rank` misbehaves at its `collective`-th call, from 0.
struct Injection {
  enum Fault { Die, Hang, Skip };
  int64_t rank = -1, collective = 0;
  Fault fault = Die;
};
/// Parses "rank=1,collective=3,fault=die"; throws KERF_INVALID_ARGUMENT.
Injection parseInjection(const std::string &text);

/// Thrown on the injected rank by fault=die: its thread ends without a word.
struct RankDied {};

struct WorldSpec {
  Mesh mesh;
  std::vector<CollectiveDesc> collectives;
  std::vector<ChannelDesc> channels;
  double deadlineSeconds = 30;
  std::optional<Injection> injection;
  int64_t maxSends = 16; ///< sends on one channel that may await their receive
};

/// What one rank did, per collective and per channel.
struct CommCounters {
  struct Entry {
    int64_t calls = 0;
    int64_t groupBytes = 0; ///< from the arguments of the calls
    int64_t movedBytes =
        0; ///< copied to or from another rank's memory by this one
    int64_t paddedBytes = 0; ///< counted, but padding that needed no copy
    double seconds = 0;      ///< from start (or wait) to end
  };
  std::vector<Entry> collectives;
  std::vector<Entry> sends, receives; ///< receives carry the moved bytes
};

class Device;

class Comm {
public:
  virtual ~Comm() = default;

  /// Makes src and dst of collective `index` available; never waits for other
  /// ranks.
  virtual void start(int64_t index, const void *src, void *dst) = 0;
  /// Completes a started collective. Throws on mismatch, deadline, failure
  /// elsewhere.
  virtual void wait(int64_t index) = 0;
  /// Advances started collectives as far as possible without waiting.
  virtual void progress() = 0;

  /// Makes `data` available on a channel; returns the number of the send.
  virtual int64_t send(int64_t channel, const void *data,
                       int64_t microBatch) = 0;
  /// Waits until the receiver has taken send `number`: its data may be
  /// overwritten.
  virtual void finishSend(int64_t channel, int64_t number) = 0;
  virtual void receive(int64_t channel, void *data, int64_t microBatch) = 0;

  virtual const CommCounters &counters() const = 0;
};

class World {
public:
  virtual ~World() = default;
  /// The endpoint of a rank; once per rank, from any thread.
  virtual std::unique_ptr<Comm> join(int64_t rank) = 0;
  /// The same for a rank that computes on `device`: communication on streams
  /// needs the device. To be called on the rank's thread.
  virtual std::unique_ptr<Comm> joinOn(int64_t rank, Device &) {
    return join(rank);
  }
  /// Ends the run with `error` on all ranks; the first one wins. Any thread.
  virtual void fail(const Error &error) = 0;
  virtual bool failed() const = 0;
  /// The first failure. Only after failed().
  virtual Error failure() const = 0;
  /// Text per rank: its last collective, for errors on deadlines.
  virtual std::vector<std::string> lastCollectives() const = 0;
  /// Makes injected hangs return, so that a test can join its threads.
  virtual void release() = 0;
};

/// Ranks as threads of this process. Throws KERF_BAD_PACKAGE on a bad spec.
std::unique_ptr<World> makeThreadWorld(const WorldSpec &spec);

/// Compares, over all ranks, bytes planned, counted and moved, per collective
/// and group and per channel; throws KERF_BYTES_DIFFER naming the first
/// difference.
void checkBytes(const WorldSpec &spec,
                const std::vector<const CommCounters *> &counters);

} // namespace kerf::rt

#endif // KERF_RT_COMM_COMM_H
