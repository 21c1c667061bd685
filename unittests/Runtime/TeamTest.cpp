//===- TeamTest.cpp - how many threads a call gets ------------------------===//
#include "device/cpu/Team.h"
#include "device/Device.h"
#include "device/cpu/OpenMP.h"
#include "kerf/Format/HostCores.h"
#include "kerf/rt/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <optional>
#include <sched.h>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>

using namespace kerf::rt;

namespace {

/// A variable of the environment while it lives; null: not there.
class VariableIs {
public:
  VariableIs(const char *name, const char *value) : name(name) {
    if (const char *old = std::getenv(name))
      before = old;
    set(value);
  }
  ~VariableIs() { set(before ? before->c_str() : nullptr); }

private:
  void set(const char *value) {
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  const char *name;
  std::optional<std::string> before;
};

/// KERF_TEAMS while it lives.
struct TeamsAre : VariableIs {
  explicit TeamsAre(const char *value) : VariableIs("KERF_TEAMS", value) {}
};

LibraryDesc matmul(int64_t m, int64_t n, int64_t k) {
  LibraryDesc desc;
  desc.m = m, desc.n = n, desc.k = k;
  desc.lhs.kind = desc.rhs.kind = desc.dst.kind = Operand::Buffer;
  desc.rhs.index = 1, desc.dst.index = 2;
  return desc;
}

/// The threads that a launch's ranges ran on.
std::set<pid_t> threadsOf(Device &device, int64_t count, int64_t grain) {
  struct Seen {
    std::mutex mutex;
    std::set<pid_t> ids;
  } seen;
  void *data = &seen;
  device.launch(
      [](void *const *buffers, const int64_t *, int64_t, int64_t) {
        auto &seen = *static_cast<Seen *>(buffers[0]);
        std::lock_guard<std::mutex> lock(seen.mutex);
        seen.ids.insert(::gettid());
      },
      &data, nullptr, count, grain);
  return seen.ids;
}

/// What oneDNN would take for the team of this thread.
int maxThreads() {
  auto *get = reinterpret_cast<int (*)()>(
      ::dlsym(::dlopen("libgomp.so.1", RTLD_NOW), "omp_get_max_threads"));
  return get();
}

TEST(Team, OneOrAll) {
  TeamsAre byWork(nullptr);
  Team team(4);
  if (!OpenMP::get().available())
    GTEST_SKIP() << "no OpenMP";
  EXPECT_EQ(team.threadsFor(0), 1);
  EXPECT_EQ(team.threadsFor(1), 1);
  EXPECT_EQ(team.threadsFor(1.01), 4);
  EXPECT_EQ(team.threadsFor(1000), 4);
  EXPECT_EQ(Team(0).threads(), 1);
  TeamsAre always("always");
  EXPECT_EQ(Team(4).threadsFor(0), 4);
}

// A right side that repeats along the batch is read once.
TEST(Team, WorkOfCalls) {
  double product = workOf(matmul(4, 8, 16)).flops;
  EXPECT_GE(product, 2 * 4 * 8 * 16);
  EXPECT_EQ(product, workOf(matmul(4, 16, 16)).flops); // vectors of 16
  EXPECT_EQ(workOf(matmul(4, 32, 16)).flops - product, 2 * 4 * 16 * 16);
  EXPECT_EQ(workOf(matmul(4, 8, 16)).bytes, 4 * (4 * 16 + 16 * 8 + 4 * 8));
  LibraryDesc batched = matmul(4, 8, 16);
  batched.batch = {3};
  EXPECT_EQ(workOf(batched).flops, 3 * product);
  EXPECT_EQ(workOf(batched).bytes, 3 * 4 * (4 * 16 + 16 * 8 + 4 * 8));
  batched.rhs.strides = {0, 8, 1};
  EXPECT_EQ(workOf(batched).bytes, 4 * (3 * 4 * 16 + 16 * 8 + 3 * 4 * 8));
  LibraryDesc conv;
  conv.kind = LibraryDesc::Conv;
  conv.batch = {2};
  conv.inChannels = 8, conv.outChannels = 16, conv.groups = 4;
  conv.in = {6, 6}, conv.out = {4, 4}, conv.kernel = {3, 3};
  EXPECT_EQ(workOf(conv).flops, 2 * 2 * 16 * 16 * 2 * 9);
  EXPECT_EQ(workOf(conv).bytes, 4 * (2 * 36 * 8 + 2 * 16 * 16 + 9 * 2 * 16));
  EXPECT_LT(partsOf(workOf(matmul(1, 64, 64))), 1);
  EXPECT_GT(partsOf(workOf(matmul(128, 768, 768))), 1);
  EXPECT_EQ(grainOf({0, 1e12}), 1);
  int64_t grain = grainOf({100, 100});
  EXPECT_GE(partsOf({100.0 * static_cast<double>(grain),
                     100.0 * static_cast<double>(grain)}),
            1);
}

TEST(Team, LaunchesUseOneThreadOrTheSameOnes) {
  if (!OpenMP::get().available())
    GTEST_SKIP() << "no OpenMP";
  TeamsAre byWork(nullptr);
  auto device = makeCpuDevice(0, 4, makeCpuPackCache());
  std::set<pid_t> all;
  for (int i = 0; i < 20; ++i)
    for (int64_t count : {10, 20, 40, 1000}) {
      std::set<pid_t> used = threadsOf(*device, count, 10);
      if (count < 20)
        EXPECT_EQ(used, std::set{::gettid()});
      else
        EXPECT_EQ(static_cast<int64_t>(used.size()),
                  std::min<int64_t>(count / 10, 4));
      all.insert(used.begin(), used.end());
    }
  // A team of another size would have been made of new threads.
  EXPECT_EQ(all.size(), 4u);
}

/// The cores that each thread of a team of two may use, one after the other.
std::vector<std::set<int>> coresOfTeam() {
  struct Seen {
    std::mutex mutex;
    std::vector<std::set<int>> cores = std::vector<std::set<int>>(2);
  } seen;
  void *data = &seen;
  auto device = makeCpuDevice(0, 2, makeCpuPackCache());
  device->launch(
      [](void *const *buffers, const int64_t *, int64_t begin, int64_t) {
        auto &seen = *static_cast<Seen *>(buffers[0]);
        cpu_set_t set;
        ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
        std::lock_guard<std::mutex> lock(seen.mutex);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
          if (CPU_ISSET(cpu, &set))
            seen.cores[begin].insert(cpu);
      },
      &data, nullptr, 2, 1);
  return seen.cores;
}

TEST(Team, BoundToACoreEach) {
  if (!OpenMP::get().available() || kerf::hostCores().allowed < 2)
    GTEST_SKIP() << "needs OpenMP and two cores";
  for (const char *name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (std::getenv(name))
      GTEST_SKIP() << name << " is set";
  // Threads of their own, since what is bound stays so.
  std::thread([] {
    bindCpuTeam(0, 2);
    std::vector<std::set<int>> cores = coresOfTeam();
    EXPECT_EQ(cores[0].size(), 1u);
    EXPECT_EQ(cores[1].size(), 1u);
    EXPECT_NE(cores[0], cores[1]);
  }).join();
  std::thread([] {
    bindCpuTeam(kerf::hostCores().allowed - 1, 2); // one too many
    EXPECT_GT(coresOfTeam()[0].size(), 1u);
  }).join();
  std::thread([] {
    ::setenv("OMP_PROC_BIND", "false", 1);
    bindCpuTeam(0, 2);
    ::unsetenv("OMP_PROC_BIND");
    EXPECT_GT(coresOfTeam()[0].size(), 1u);
  }).join();
}

#ifdef KERF_HAVE_ONEDNN
TEST(Team, LibraryCallsAskForTheirThreadsEachTime) {
  if (!OpenMP::get().available())
    GTEST_SKIP() << "no OpenMP";
  TeamsAre byWork(nullptr);
  int before = maxThreads();
  auto device = makeCpuDevice(0, 3, makeCpuPackCache());
  EXPECT_EQ(maxThreads(), before); // a device changes nothing for its caller
  // Rows below 16 are oneDNN's.
  LibraryDesc smallDesc = matmul(8, 16, 16), largeDesc = matmul(8, 1024, 1024);
  auto noParameter = [](int64_t) { return ParameterView(); };
  auto small = device->prepare(smallDesc, 0, noParameter);
  EXPECT_EQ(maxThreads(), 1);
  auto large = device->prepare(largeDesc, 1, noParameter);
  EXPECT_EQ(maxThreads(), 3);
  auto scratch = device->allocate(
      std::max(small->scratchBytes(), large->scratchBytes()), "scratch");
  auto a = device->allocate(8 * 1024 * 4, "a"),
       b = device->allocate(1024 * 1024 * 4, "b"),
       c = device->allocate(8 * 1024 * 4, "c");
  void *buffers[] = {a->data, b->data, c->data};
  small->run(buffers, scratch->data);
  EXPECT_EQ(maxThreads(), 1);
  large->run(buffers, scratch->data);
  EXPECT_EQ(maxThreads(), 3);
}
#endif

/// Threads that have nothing to do spin before they sleep, for as long as gaps
/// between kernels are, unless the user says how.
TEST(Team, SpinsShortlyUnlessTheUserSaysHow) {
  VariableIs policy("OMP_WAIT_POLICY", nullptr);
  VariableIs count("GOMP_SPINCOUNT", nullptr);
  {
    VariableIs own("OMP_WAIT_POLICY", "passive");
    preferShortSpins();
    EXPECT_EQ(std::getenv("GOMP_SPINCOUNT"), nullptr);
  }
  preferShortSpins();
  EXPECT_STREQ(std::getenv("GOMP_SPINCOUNT"), "2000");
  ::setenv("GOMP_SPINCOUNT", "7", 1);
  preferShortSpins();
  EXPECT_STREQ(std::getenv("GOMP_SPINCOUNT"), "7");
}

} // namespace
