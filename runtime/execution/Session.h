//===- Session.h - ranks of a package, run step by step ---------*- C++ -*-===//
//
// One thread per rank lives as long as the session: it loads its rank, then
// waits for steps. Everything that the threads use is in one shared state, so
// that a rank that never returns can be abandoned without freeing its memory.
//
// In a job of processes each has the session with its own rank only. Rank 0
// leads (SessionLink.h): on the others run() waits for its requests and serves
// them; outputs, parameters and statistics are available on rank 0.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_SESSION_H
#define KERF_RUNTIME_EXECUTION_SESSION_H

#include "RankReport.h"
#include "SessionLink.h"

#include <condition_variable>
#include <thread>

namespace kerf::rt {

struct SessionOptions {
  int32_t threads = 0;
  double deadlineSeconds = 30;
  bool trace = false;
  std::optional<Injection> injection;
  /// By parameter: its stored tensor, or null for that of the package.
  std::vector<const char *> stored;
  /// Its processes are the ranks; null: ranks are threads of this process.
  std::shared_ptr<Job> job;
};

class Session;

/// What steps of one package keep from one to the next, on all ranks.
struct SessionState {
  std::string path; ///< of the package
  std::vector<RankState> ranks;
  std::atomic<const Session *> user{nullptr}; ///< whose steps work on it
};

class Session {
public:
  /// Starts and loads all ranks. Throws the first failure.
  Session(std::shared_ptr<const Package> package,
          const SessionOptions &options);
  /// Waits one second for ranks to end, then leaves them behind. In a job the
  /// others wait for rank 0 to end the session.
  ~Session();

  void setInput(int64_t index, const void *data, size_t bytes);
  /// One step. In a job, on other ranks than 0: the one that rank 0 runs next;
  /// throws KERF_CLOSED if it ends the session instead.
  void run();
  /// In a job, between steps: rank 0's bytes for all.
  void share(void *data, size_t bytes);
  std::pair<const void *, size_t> output(int64_t index) const;
  /// As the last step left it.
  Shape outputShape(int64_t index) const;
  /// The global tensor of a mutable parameter; throws KERF_MISMATCH where ranks
  /// that should hold the same part do not.
  void getParameter(int64_t index, void *data, size_t bytes) const;
  void setParameter(int64_t index, const void *data, size_t bytes);

  /// Further states beside the session's own (SessionStates.cpp). Throws
  /// KERF_INVALID_ARGUMENT where steps keep nothing but weights, in a job and
  /// on GPUs, for a state of another package, or one that another session uses.
  std::shared_ptr<SessionState> makeState();
  /// Null: what the session works on.
  std::shared_ptr<SessionState> forkState(const SessionState *from);
  void resetState(SessionState *which);
  /// Null: the session's own.
  void useState(std::shared_ptr<SessionState> which);

  const Package &package() const { return *state->package; }
  const WorldSpec &spec() const { return state->spec; }
  /// Null if it is in another process.
  const Rank *localRank(int64_t index) const {
    return state->ranks[index].get();
  }
  /// Of all ranks; on rank 0 alone.
  std::vector<RankReport> reports(bool withTrace) const;
  int32_t threads() const { return state->threads; }
  const std::vector<double> &stepSeconds() const { return steps; }
  double loadSeconds() const { return loadTime; }

private:
  struct State {
    std::shared_ptr<const Package> package;
    WorldSpec spec;
    std::unique_ptr<World> world;
    ParameterStore store;
    std::shared_ptr<PackCache> packs = makeCpuPackCache();
    int32_t threads = 1;
    bool fillsHost = false; ///< ranks are threads that use every core
    bool trace = false;
    std::vector<int64_t> local;               ///< ranks of this process
    std::vector<std::unique_ptr<Rank>> ranks; ///< null: in another process
    std::shared_ptr<Job> job;
    std::vector<std::unique_ptr<DeviceMemory>> outputs;
    StepIo io;
    std::shared_ptr<SessionState> used; ///< null: the session's own

    std::mutex mutex;
    std::condition_variable changed;
    int64_t generation = 0; ///< of the step that ranks should run
    int64_t done = 0;       ///< ranks that ended this generation
    std::vector<bool> doneRanks;
    int64_t ended = 0; ///< threads that are gone
    bool closing = false;

    State(std::shared_ptr<const Package> package,
          std::vector<const char *> stored)
        : package(package), store(package, std::move(stored)) {}
  };
  static void rankThread(std::shared_ptr<State> state, int64_t rank);
  void load();
  void setPhase(ProcessNote::Phase phase) const;
  bool leads() const { return !link || link->leads(); }
  /// Rank 0 of a job, or the one process.
  void requireLead(const char *what) const;
  /// Other ranks: serves the requests of rank 0, until it asks for something
  /// else.
  SessionLink::Command serveUntil();
  /// False when rank 0 ends the session.
  bool serveUntilStep();
  void serve(const SessionLink::Command &command);
  /// After a step of a job: outputs and counts to rank 0.
  void endJobStep();
  /// The shape that an output has behind a step, by what the step says.
  Shape boundedShape(const GlobalTensor &tensor) const;
  /// Behind a step: outputs become dense in these shapes.
  void trimOutputs();
  /// The number of the model's output `index`, which may be asked for, among
  /// all outputs.
  int64_t outputNumber(int64_t index) const;
  void shutDown();
  /// Runs one generation on all ranks; throws the first failure.
  void runGeneration();
  /// Checks arguments; calls visit(rank, part, the rank or null if it is in
  /// another process) for each rank that holds a part.
  template <typename Visit>
  void forEachHolder(int64_t index, size_t bytes, Visit &&visit) const;
  Error stuck(const std::vector<int64_t> &progress) const;

  void requireStates() const;
  void requireOwn(const SessionState &which) const;
  const RankState &stateOf(size_t rank, const SessionState *which) const;

  std::shared_ptr<State> state;
  std::unique_ptr<SessionLink> link;
  std::vector<std::thread> workers;
  std::vector<double> steps;
  double loadTime = 0;
  bool broken = false, ended = false;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_SESSION_H
