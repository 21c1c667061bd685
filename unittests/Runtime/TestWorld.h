//===- TestWorld.h - threads that play ranks in tests -----------*- C++ -*-===//
#ifndef KERF_UNITTESTS_RUNTIME_TESTWORLD_H
#define KERF_UNITTESTS_RUNTIME_TESTWORLD_H

#include "comm/Comm.h"
#include "comm/processes/Job.h"

#include <gtest/gtest.h>

namespace kerf::rt::test {

/// A mesh from sizes; axes are called a, b, c, ... `stageAxis` is an index or
/// -1.
Mesh meshOf(const std::vector<int64_t> &sizes, int stageAxis = -1);
/// Whole axes by index.
AxisList axesOf(const Mesh &mesh, const std::vector<int> &axes);

/// An implementation under test.
struct Implementation {
  const char *name;
  std::unique_ptr<World> (*make)(const WorldSpec &spec);
};
/// All that there are: the conformance suite runs over each. In a process of a
/// job that mpirun or the like has started, the job's alone.
std::vector<Implementation> implementations();

/// The job that this process of a test belongs to; null in a usual test. Every
/// process runs the same tests, each plays its own rank, those past the mesh
/// look on.
std::shared_ptr<Job> &testJob();

/// False in a job of fewer processes than the mesh has ranks.
inline bool enoughRanks(const Mesh &mesh) {
  return !testJob() || mesh.numRanks() <= testJob()->size();
}
#define SKIP_WITHOUT_RANKS(mesh)                                               \
  if (!enoughRanks(mesh))                                                      \
  GTEST_SKIP() << "needs " << (mesh).numRanks() << " processes"

/// What each rank ended with: nothing, or an error.
struct RankOutcome {
  bool failed = false, died = false;
  Error error{KERF_OK, ""};
};

/// Runs `body(rank, comm)` on one thread per rank, joins all, checks bytes if
/// all went well. `seconds` is the time until the last rank that did not hang
/// ended.
std::vector<RankOutcome>
runRanks(const WorldSpec &spec,
         const std::function<void(int64_t, Comm &)> &body,
         double *seconds = nullptr,
         std::unique_ptr<World> (*make)(const WorldSpec &) = makeThreadWorld);

/// Fails the current test for every rank that failed.
void expectNoFailure(const std::vector<RankOutcome> &outcomes);

} // namespace kerf::rt::test

#endif // KERF_UNITTESTS_RUNTIME_TESTWORLD_H
