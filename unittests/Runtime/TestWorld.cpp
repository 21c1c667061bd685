//===- TestWorld.cpp - threads that play ranks in tests -------------------===//
#include "TestWorld.h"

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

std::vector<Implementation> kerf::rt::test::implementations() {
  return {{"threads", makeThreadWorld}};
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
  int64_t ranks = spec.mesh.numRanks();
  std::vector<RankOutcome> outcomes(ranks);
  std::vector<std::unique_ptr<Comm>> comms(ranks);
  std::atomic<int64_t> running{ranks};
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
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
  if (fine) {
    std::vector<const CommCounters *> counters;
    for (auto &comm : comms)
      counters.push_back(&comm->counters());
    checkBytes(spec, counters);
  }
  return outcomes;
}

void kerf::rt::test::expectNoFailure(const std::vector<RankOutcome> &outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    EXPECT_FALSE(outcomes[rank].failed || outcomes[rank].died)
        << "rank " << rank << ": " << outcomes[rank].error.message;
}
