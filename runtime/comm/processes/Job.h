//===- processes/Job.h - the processes that run a package -------*- C++ -*-===//
//
// One process per rank; rank 0 leads: it has inputs and outputs, the others
// follow. A Job holds the transport, a watcher thread that keeps control
// messages moving while the rank computes, the first failure, and the notes
// that ranks write about their activity.
//
// Deadlines. A rank that waits too long asks all ranks what they are doing. If
// the one it waits for answers that it rests between steps (rank 0 writes a
// checkpoint) or loads, it waits again; otherwise the end of the chain of
// waiting ranks is at fault. So a job ends within the deadline plus two seconds
// for answers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_PROCESSES_JOB_H
#define KERF_RT_COMM_PROCESSES_JOB_H

#include "../Rendezvous.h"
#include "../Transport.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace kerf::rt {

/// A rank's activity; sent as bytes. `wait` is the collective or channel that
/// it waits in, `number` the call in the group or channel, `missing` the rank
/// that it waits for.
struct ProcessNote {
  enum State : int32_t {
    Working,
    Arriving,
    Finishing,
    Sending,
    Receiving,
    Ending ///< its step is over, another's is not
  };
  enum Phase : int32_t { Loading, Resting, Stepping };
  int32_t state = Working, phase = Stepping;
  int64_t wait = -1, number = 0, missing = -1;
  int64_t lastCollective = -1, collectives = 0;
  int64_t progress = 0; ///< the instruction of the step, now and then
};

/// The answers to "what are you doing"; a rank that is gone gives none.
using Notes = std::vector<std::optional<ProcessNote>>;

class Job {
public:
  Job(const JobEnvironment &environment, std::unique_ptr<Transport> transport,
      double deadlineSeconds);
  ~Job();
  Job(const Job &) = delete;

  /// Why a wait ends without success.
  enum class Reason { Deadline, PeerLost, Signal };

  int64_t rank() const { return env.rank; }
  int64_t size() const { return env.size; }
  bool leads() const { return env.rank == 0; }
  const JobEnvironment &environment() const { return env; }
  double deadlineSeconds() const { return deadline; }
  void setDeadline(double seconds) { deadline = seconds; }
  Transport &transport() { return *link; }
  /// Guards the transport, the note, and what belongs to them.
  std::recursive_mutex &mutex() { return lock; }

  /// Tags for `count` streams of messages; the same on all ranks that make the
  /// same calls in the same order.
  uint32_t allocateTags(uint32_t count);

  /// The first failure wins; all other ranks are told. Any thread.
  void fail(const Error &error);
  bool failed() const { return aborted.load(std::memory_order_acquire); }
  Error failure() const;
  /// Moves messages and handles control messages. Any thread.
  void poll();

  /// This rank's note; change it under the mutex.
  ProcessNote &note() { return mine; }
  /// Asks all ranks and waits up to `seconds` for answers.
  Notes inquire(double seconds);
  /// The last note received from a rank and its age in seconds. Ranks other
  /// than 0 know only the note of rank 0.
  std::optional<std::pair<ProcessNote, double>> lastKnown(int64_t rank) const;
  /// The rank whose connection has ended, -1 if none has; and for how long.
  int64_t lostRank(double *seconds = nullptr);
  /// "within 30 s", "before it ended", "before signal 15 ended the job".
  std::string describe(Reason reason) const;

  /// Polls until `done` (called under the mutex) returns true. After the
  /// deadline `expired` returns the failure, or nothing to wait for another
  /// deadline. The failure ends the job and is thrown; so is any other rank's.
  using Expired = std::function<std::optional<Error>(Reason)>;
  void await(const std::function<bool()> &done, const Expired &expired);
  /// Waits for a request of a peer that may be busy for long: as long as
  /// messages arrive from it and, if rank 0 waits for the end of a step, as
  /// long as it progresses.
  void awaitAlive(Request &request, int64_t peer, const std::string &what);

  /// Broadcasts `bytes` bytes of rank 0.
  void broadcast(void *data, size_t bytes);
  /// Gathers the bytes of every rank, by rank; empty except on rank 0. `what`
  /// as in "rank 2 did not WHAT".
  std::vector<std::string> gather(const std::string &mine,
                                  const std::string &what);
  /// Rank 0 ends the job with an exit code: the others' waits throw
  /// KERF_CLOSED, and closedCode() returns the code.
  void close(int code);
  /// On other ranks: waits for rank 0 to do so.
  int awaitClose();
  int closedCode() const { return closeCode; }
  bool closed() const { return closeCode >= 0; }
  /// Sends goodbye to all and waits for theirs; then ends the transport. Not
  /// after a failure.
  void leave();

  /// Decides which rank prints the job's failure: the lowest that is not at
  /// fault. The others wait a second for it (and for the launcher to end them)
  /// before they print it themselves. Returns -1 when it is this rank's turn;
  /// the exit code of rank 0 if that has ended the job.
  int awaitTurnToReport();
  void setSignals(const kerf_signals_t *given) { signals = given; }
  /// Formats notes as lines, for failures between steps.
  using Table = std::function<std::vector<std::string>(const Notes &)>;
  void setTable(Table lines) { table = std::move(lines); }
  /// The key/value store, where there is one (not under mpirun): rank 0 serves
  /// it as long as the job lives.
  Store *store() { return kept.get(); }
  void keepStore(std::unique_ptr<Store> store) { kept = std::move(store); }

private:
  void watch();
  void askAround();
  bool isGone(int64_t rank) const { return silent[rank] || link->isLost(rank); }
  int terminateSignal() const { return signals ? signals->terminate : 0; }
  void handle(int64_t from, const std::string &message);
  void tell(int64_t to, char kind, const std::string &text = "");
  void tellAll(char kind, const std::string &text = "");
  bool terminating();

  JobEnvironment env;
  std::unique_ptr<Store> kept;
  std::unique_ptr<Transport> link;
  std::atomic<double> deadline;
  mutable std::recursive_mutex lock;
  uint32_t nextTag = 1;
  ProcessNote mine;
  uint64_t inquiry = 0;
  Notes answers, known;
  std::vector<std::chrono::steady_clock::time_point> heard;
  std::vector<bool> answered; ///< since it was asked
  std::vector<bool> bye;
  std::atomic<int> closeCode{-1};
  std::atomic<bool> aborted{false}, leaving{false};
  std::atomic<int> waiting{0};
  std::optional<Error> first;
  const kerf_signals_t *signals = nullptr;
  int resumed = 0; ///< signals->resumed that was dealt with
  std::optional<std::chrono::steady_clock::time_point> asked;
  std::vector<bool> silent; ///< ranks that were asked and did not answer
  std::optional<Error> silence(Reason reason, int64_t peer,
                               const std::string &what, int64_t &progress);
  std::optional<std::chrono::steady_clock::time_point> terminated, lost;
  std::atomic<bool> ending{false};
  Table table;
  std::thread watcher;
};

/// Joins the job that the environment describes: over MPI under mpirun, else
/// over TCP. Throws what Rendezvous.h and the transports throw.
std::shared_ptr<Job> joinJob(const JobEnvironment &environment,
                             double deadlineSeconds);

} // namespace kerf::rt

#endif // KERF_RT_COMM_PROCESSES_JOB_H
