//===- Session.h - ranks as threads, run step by step -----------*- C++ -*-===//
//
// One thread per rank lives as long as the session: it loads its rank, then
// waits for steps. Everything that the threads touch hangs on one shared state,
// so that a rank that never comes back can be abandoned without pulling memory
// from under it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_SRC_SESSION_H
#define KERF_RT_SRC_SESSION_H

#include "Rank.h"

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
};

class Session {
public:
  /// Starts and loads all ranks. Throws the first failure.
  Session(std::shared_ptr<const Package> package,
          const SessionOptions &options);
  /// Waits one second for ranks to end, then leaves them behind.
  ~Session();

  void setInput(int64_t index, const void *data, size_t bytes);
  void run();
  std::pair<const void *, size_t> output(int64_t index) const;
  /// The global tensor of a mutable parameter; throws KERF_MISMATCH where ranks
  /// that should hold the same part do not.
  void getParameter(int64_t index, void *data, size_t bytes) const;
  void setParameter(int64_t index, const void *data, size_t bytes);

  const Package &package() const { return *state->package; }
  const WorldSpec &spec() const { return state->spec; }
  const Rank &rank(int64_t index) const { return *state->ranks[index]; }
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
    bool trace = false;
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<std::unique_ptr<DeviceMemory>> outputs;
    StepIo io;

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
  void shutDown();
  /// Runs one generation on all ranks; throws the first failure.
  void runGeneration();
  /// Checks arguments; calls visit(rank, part, local memory) for each holder.
  template <typename Visit>
  void forEachPart(int64_t index, size_t bytes, Visit &&visit) const;
  Error stuck(const std::vector<int64_t> &progress) const;

  std::shared_ptr<State> state;
  std::vector<std::thread> workers;
  std::vector<double> steps;
  double loadTime = 0;
  bool broken = false;
};

} // namespace kerf::rt

#endif // KERF_RT_SRC_SESSION_H
