//===- TestWorld.cpp - threads that play ranks in tests -------------------===//
#include "TestWorld.h"

#include "comm/processes/ProcessComm.h"
#include "comm/processes/Reports.h"
#include "comm/tcp/TcpTransport.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace kerf::rt;
using namespace kerf::rt::test;

Mesh kerf::rt::test::meshOf(const std::vector<int64_t> &sizes, int stageAxis) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i)
    mesh.axes.push_back({std::string(1, static_cast<char>('a' + i)), sizes[i]});
  mesh.stageAxis = stageAxis;
  return mesh;
}

std::shared_ptr<Job> &kerf::rt::test::testJob() {
  static std::shared_ptr<Job> job;
  return job;
}

namespace {
/// Process ranks over TCP, each with a job of its own, in one process: each is
/// used by the thread that plays its rank.
class LoopWorld : public World {
public:
  explicit LoopWorld(const WorldSpec &spec) {
    int64_t ranks = spec.mesh.numRanks();
    JobEnvironment env;
    env.size = ranks;
    env.masterAddress = "127.0.0.1";
    StoreServer server("127.0.0.1", 0);
    env.masterPort = server.port();
    std::vector<std::thread> threads;
    worlds.resize(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        JobEnvironment own = env;
        own.rank = rank;
        auto store = connectStore("127.0.0.1", env.masterPort, 10);
        auto job = std::make_shared<Job>(
            own, std::make_unique<TcpTransport>(own, *store, 10),
            spec.deadlineSeconds);
        worlds[rank] = std::make_unique<ProcessWorld>(job, spec);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  std::unique_ptr<Comm> join(int64_t rank) override {
    return worlds[rank]->join(rank);
  }
  void fail(const Error &error) override { worlds[0]->fail(error); }
  bool failed() const override { return worlds[0]->failed(); }
  Error failure() const override { return worlds[0]->failure(); }
  std::vector<std::string> lastCollectives() const override {
    return worlds[0]->lastCollectives();
  }
  void release() override {
    for (auto &world : worlds)
      world->release();
  }

private:
  std::vector<std::unique_ptr<ProcessWorld>> worlds;
};

std::unique_ptr<World> makeLoopWorld(const WorldSpec &spec) {
  return std::make_unique<LoopWorld>(spec);
}
std::unique_ptr<World> makeJobWorld(const WorldSpec &spec) {
  return std::make_unique<ProcessWorld>(testJob(), spec);
}

/// Of all ranks, on rank 0 of the job; the others get nothing.
std::vector<CommCounters> gatherCounters(const WorldSpec &spec,
                                         const CommCounters *mine) {
  std::vector<std::string> all = testJob()->gather(
      mine ? packCounters(*mine) : std::string(), "give its counts");
  std::vector<CommCounters> counters;
  for (size_t r = 0;
       r < all.size() &&
       counters.size() < static_cast<size_t>(spec.mesh.numRanks());
       ++r)
    counters.push_back(unpackCounters(all[r], spec));
  return counters;
}
} // namespace

std::vector<Implementation> kerf::rt::test::implementations() {
  if (testJob())
    return {{testJob()->transport().name(), makeJobWorld}};
  return {{"threads", makeThreadWorld}, {"tcp", makeLoopWorld}};
}

AxisList kerf::rt::test::axesOf(const Mesh &mesh,
                                const std::vector<int> &axes) {
  AxisList list;
  for (int axis : axes)
    list.push_back({axis, mesh.axes[axis].size, 1});
  return list;
}

std::vector<RankOutcome> kerf::rt::test::runRanks(
    const WorldSpec &spec, const std::function<void(int64_t, Comm &)> &body,
    double *seconds, std::unique_ptr<World> (*make)(const WorldSpec &)) {
  auto begin = std::chrono::steady_clock::now();
  auto world = make(spec);
  int64_t ranks = spec.mesh.numRanks(), first = 0, last = ranks;
  if (testJob()) {
    first = testJob()->rank();
    last = std::min(first + 1, ranks);
  }
  std::vector<RankOutcome> outcomes(ranks);
  std::vector<std::unique_ptr<Comm>> comms(ranks);
  std::atomic<int64_t> running{std::max<int64_t>(0, last - first)};
  std::vector<std::thread> threads;
  for (int64_t rank = first; rank < last; ++rank)
    threads.emplace_back([&, rank] {
      try {
        comms[rank] = world->join(rank);
        body(rank, *comms[rank]);
      } catch (const RankDied &) {
        outcomes[rank].died = true;
      } catch (const Error &error) {
        outcomes[rank].failed = true;
        outcomes[rank].error = error;
      }
      --running;
    });
  // A hanging rank is let go when all others have ended.
  int64_t hanging =
      spec.injection && spec.injection->fault == Injection::Hang ? 1 : 0;
  while (running > hanging)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (seconds)
    *seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
  world->release();
  for (std::thread &thread : threads)
    thread.join();
  bool fine = true;
  for (const RankOutcome &outcome : outcomes)
    fine = fine && !outcome.failed && !outcome.died;
  std::vector<const CommCounters *> counters;
  std::vector<CommCounters> gathered;
  if (testJob()) {
    gathered = gatherCounters(
        spec, fine && first < last ? &comms[first]->counters() : nullptr);
    for (const CommCounters &each : gathered)
      counters.push_back(&each);
    fine = fine && testJob()->leads();
  } else if (fine) {
    for (auto &comm : comms)
      counters.push_back(&comm->counters());
  }
  if (fine)
    checkBytes(spec, counters);
  return outcomes;
}

void kerf::rt::test::expectNoFailure(const std::vector<RankOutcome> &outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    EXPECT_FALSE(outcomes[rank].failed || outcomes[rank].died)
        << "rank " << rank << ": " << outcomes[rank].error.message;
}
