//===- WorldTest.cpp - NCCL's world without NCCL --------------------------===//
//
// NcclComm over the recording driver: every kind of collective, over every
// axis, along every dimension, with shapes that do not divide, against the
// definition; work runs in random orders. Then faults: a rank that hangs, dies,
// skips, an error of the library.
//
//===----------------------------------------------------------------------===//
#include "RecordingDriver.h"
#include "TestWorld.h"

#include "comm/nccl/NcclWorldImpl.h"
#include "comm/nccl/StreamComm.h"
#include "device/cuda/CudaDevice.h"
#include "package/Package.h"

#include <cstring>
#include <random>
#include <thread>

using namespace kerf::rt;
using namespace kerf::rt::test;

namespace {

/// A rank's device with the steps around calls.
struct GpuRank {
  Package package;
  std::unique_ptr<CudaDeviceBase> device;
  std::unique_ptr<Comm> comm;
  std::vector<std::unique_ptr<DeviceMemory>> memory;

  GpuRank(World &world, const WorldSpec &spec, int64_t rank,
          int64_t poolBytes) {
    package.manifest.mesh = spec.mesh;
    package.manifest.cuda.used = true;
    device = makeCudaDevice(package, rank, 1, makeCpuPackCache());
    device->reserve(poolBytes, "a test");
    comm = world.joinOn(rank, *device);
  }
  ~GpuRank() {
    device->stop();
    comm.reset();
  }
  char *allocate(int64_t bytes) {
    memory.push_back(device->allocate(bytes, "a buffer"));
    return static_cast<char *>(memory.back()->data);
  }
  StreamComm &streams() { return dynamic_cast<StreamComm &>(*comm); }
  template <typename Body> void step(Body &&body) {
    bool begun = false;
    while (!begun) {
      bool enqueue = device->beginStep();
      streams().beginStep(enqueue);
      if (enqueue)
        body();
      streams().joinStreams();
      begun = device->endStep();
      if (!begun)
        streams().abandonStep();
    }
    while (!device->stepEnded())
      streams().poll();
  }
};

struct Outcome {
  bool failed = false, died = false;
  Error error{KERF_OK, ""};
};

/// Ranks in one world, or each in a world of its own that shares only a store,
/// as processes do; `fingerprints` by rank, if they differ.
struct Worlds {
  bool processes = false;
  std::vector<std::string> fingerprints;
  std::vector<int64_t> pools; ///< by rank: bytes of the allocation
};

std::vector<Outcome>
runGpuRanks(const WorldSpec &spec,
            const std::function<void(int64_t, GpuRank &)> &body,
            const Worlds &how = {}) {
  int64_t ranks = spec.mesh.numRanks();
  auto store = makeMemoryStore([] { return false; });
  std::vector<std::shared_ptr<World>> worlds;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    NcclWorldOptions options;
    if (how.processes)
      options.store = store;
    if (!how.fingerprints.empty())
      options.fingerprint = how.fingerprints[rank];
    worlds.push_back(rank == 0 || how.processes ? makeNcclWorld(spec, options)
                                                : worlds[0]);
  }
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::unique_ptr<GpuRank>> all(ranks);
  std::atomic<int64_t> running{ranks};
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        all[rank] = std::make_unique<GpuRank>(
            *worlds[rank], spec, rank,
            how.pools.empty() ? 1 << 20 : how.pools[rank]);
        body(rank, *all[rank]);
      } catch (const RankDied &) {
        outcomes[rank].died = true;
      } catch (const Error &error) {
        outcomes[rank].failed = true;
        outcomes[rank].error = error;
        worlds[rank]->fail(error);
      }
      --running;
    });
  bool hangs = spec.injection && spec.injection->fault == Injection::Hang;
  while (running > (hangs ? 1 : 0))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (auto &world : worlds)
    world->release();
  for (std::thread &thread : threads)
    thread.join();
  bool fine = true;
  for (const Outcome &o : outcomes)
    fine = fine && !o.failed && !o.died;
  if (fine) {
    std::vector<const CommCounters *> counters;
    for (auto &rank : all)
      counters.push_back(&rank->comm->counters());
    checkBytes(spec, counters);
  }
  return outcomes;
}

void expectFine(const std::vector<Outcome> &outcomes) {
  for (size_t r = 0; r < outcomes.size(); ++r)
    EXPECT_FALSE(outcomes[r].failed || outcomes[r].died)
        << "rank " << r << ": " << outcomes[r].error.message;
}

float valueAt(int64_t rank, int64_t element) {
  return static_cast<float>((rank * 7 + element * 3) % 5);
}

int64_t flat(const Shape &shape, const Shape &index) {
  int64_t i = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    i = i * shape[d] + index[d];
  return i;
}

/// Element `index` of the result at position `me`, from the definition.
float expected(const CollectiveDesc &c, const std::vector<int64_t> &members,
               int64_t me, Shape index) {
  auto reduced = [&](const Shape &at) {
    float value = valueAt(members[0], flat(c.srcShape, at));
    for (size_t j = 1; j < members.size(); ++j) {
      float other = valueAt(members[j], flat(c.srcShape, at));
      value = c.reduction == Reduction::Sum   ? value + other
              : c.reduction == Reduction::Max ? std::max(value, other)
                                              : std::min(value, other);
    }
    return value;
  };
  switch (c.kind) {
  case CollectiveKind::AllReduce:
    return reduced(index);
  case CollectiveKind::ReduceScatter:
    index[c.dim] += me * c.dstShape[c.dim];
    return index[c.dim] < c.srcShape[c.dim] ? reduced(index) : 0;
  case CollectiveKind::AllGather: {
    int64_t from = index[c.dim] / c.srcShape[c.dim];
    index[c.dim] %= c.srcShape[c.dim];
    return valueAt(members[from], flat(c.srcShape, index));
  }
  case CollectiveKind::AllToAll: {
    int64_t from = index[c.concatDim] / c.srcShape[c.concatDim];
    index[c.concatDim] %= c.srcShape[c.concatDim];
    index[c.dim] += me * c.dstShape[c.dim];
    return index[c.dim] < c.srcShape[c.dim]
               ? valueAt(members[from], flat(c.srcShape, index))
               : 0;
  }
  case CollectiveKind::Broadcast:
    return valueAt(members[c.root], flat(c.srcShape, index));
  case CollectiveKind::Permute:
    for (auto [from, to] : c.pairs)
      if (to == me)
        return valueAt(members[from], flat(c.srcShape, index));
    return 0;
  }
  return -1;
}

CollectiveDesc makeCollective(CollectiveKind kind, const AxisList &axes,
                              const Shape &whole, int64_t dim) {
  CollectiveDesc c;
  c.kind = kind;
  c.axes = axes;
  c.dim = dim;
  c.srcShape = c.dstShape = whole;
  c.node = "/node";
  int64_t n = Mesh::sizeOf(axes);
  if (kind == CollectiveKind::ReduceScatter)
    c.dstShape[dim] = ceilDiv(whole[dim], n);
  if (kind == CollectiveKind::AllGather)
    c.srcShape[dim] = ceilDiv(whole[dim], n);
  if (kind == CollectiveKind::AllToAll) {
    c.concatDim = (dim + 1) % static_cast<int64_t>(whole.size());
    c.dstShape[dim] = ceilDiv(whole[dim], n);
    c.srcShape[c.concatDim] = ceilDiv(whole[c.concatDim], n);
  }
  if (kind == CollectiveKind::Broadcast)
    c.root = n - 1;
  if (kind == CollectiveKind::Permute)
    for (int64_t i = 0; i + 1 < n; ++i)
      c.pairs.push_back({i, i + 1});
  c.plannedGroupBytes = groupBytes(c, n);
  return c;
}

void runAndCompare(const WorldSpec &spec, int steps, const Worlds &how = {}) {
  auto outcomes = runGpuRanks(
      spec,
      [&](int64_t rank, GpuRank &gpu) {
        std::vector<char *> srcs, dsts;
        for (const CollectiveDesc &c : spec.collectives) {
          std::vector<float> src(numElements(c.srcShape));
          for (size_t i = 0; i < src.size(); ++i)
            src[i] = valueAt(rank, static_cast<int64_t>(i));
          srcs.push_back(gpu.allocate(numBytes(c.srcShape, c.dtype)));
          dsts.push_back(gpu.allocate(numBytes(c.dstShape, c.dtype)));
          gpu.device->upload(src.data(), srcs.back(),
                             numBytes(c.srcShape, c.dtype));
        }
        for (int s = 0; s < steps; ++s) {
          gpu.step([&] {
            // Pairs of neighbours are started together.
            for (size_t i = 0; i < srcs.size(); i += 2) {
              for (size_t j = i; j < std::min(i + 2, srcs.size()); ++j)
                gpu.comm->start(static_cast<int64_t>(j), srcs[j], dsts[j]);
              for (size_t j = i; j < std::min(i + 2, srcs.size()); ++j)
                gpu.comm->wait(static_cast<int64_t>(j));
            }
          });
          for (size_t i = 0; i < srcs.size(); ++i) {
            const CollectiveDesc &c = spec.collectives[i];
            std::vector<float> got(numElements(c.dstShape));
            gpu.device->download(dsts[i], got.data(),
                                 numBytes(c.dstShape, c.dtype));
            std::vector<int64_t> members = spec.mesh.group(rank, c.axes);
            int64_t me = spec.mesh.position(rank, c.axes);
            Shape index(c.dstShape.size(), 0);
            for (size_t e = 0; e < got.size(); ++e) {
              ASSERT_EQ(got[e], expected(c, members, me, index))
                  << describe(c, static_cast<int64_t>(i)) << " element " << e
                  << " of rank " << rank << " in step " << s;
              for (size_t d = index.size(); d-- > 0;) {
                if (++index[d] < c.dstShape[d])
                  break;
                index[d] = 0;
              }
            }
          }
        }
      },
      how);
  expectFine(outcomes);
}

TEST(NcclWorld, EveryCollective) {
  for (int seed : {1, 2, 3}) {
    RecordingDriver driver("seed=" + std::to_string(seed));
    for (const std::vector<int64_t> &sizes :
         {std::vector<int64_t>{2}, {3}, {2, 2}, {2, 3}}) {
      WorldSpec spec;
      spec.mesh = meshOf(sizes);
      spec.deadlineSeconds = 20;
      std::vector<std::vector<int>> subsets = {{0}};
      if (sizes.size() > 1)
        subsets = {{0}, {1}, {0, 1}, {1, 0}};
      for (const auto &subset : subsets)
        for (CollectiveKind kind :
             {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
              CollectiveKind::AllGather, CollectiveKind::AllToAll,
              CollectiveKind::Broadcast, CollectiveKind::Permute})
          for (int64_t dim = 0; dim < 3; ++dim)
            for (const Shape &shape : {Shape{6, 12, 6}, Shape{5, 3, 7}}) {
              CollectiveDesc c =
                  makeCollective(kind, axesOf(spec.mesh, subset), shape, dim);
              c.reduction = dim == 1 ? Reduction::Max : Reduction::Sum;
              spec.collectives.push_back(c);
            }
      runAndCompare(spec, 3);
      EXPECT_EQ(driver.report(), "");
    }
  }
}

TEST(NcclWorld, WithoutCapture) {
  WorldSpec spec;
  spec.mesh = meshOf({2});
  for (int64_t dim = 0; dim < 2; ++dim)
    spec.collectives.push_back(makeCollective(
        CollectiveKind::AllGather, axesOf(spec.mesh, {0}), {4, 3}, dim));
  RecordingDriver driver("no_capture=1");
  runAndCompare(spec, 4); // the driver refuses: call by call
  driver.configure("no_capture=0");
  ::setenv("KERF_CUDA_GRAPH", "0", 1);
  runAndCompare(spec, 4);
  ::unsetenv("KERF_CUDA_GRAPH");
  EXPECT_EQ(driver.dump().find("launch graph"), std::string::npos);
}

// Where one rank cannot capture its step, or not keep it, all enqueue it.
TEST(NcclWorld, OneRankCannotCapture) {
  WorldSpec spec;
  spec.mesh = meshOf({3});
  spec.collectives.push_back(makeCollective(CollectiveKind::AllReduce,
                                            axesOf(spec.mesh, {0}), {8}, 0));
  for (const char *settings : {"no_capture=1", "fail_capture=1"})
    for (bool processes : {false, true}) {
      RecordingDriver driver(cat(settings, ";capture_device=1"));
      runAndCompare(spec, 4, {processes, {"same", "same", "same"}, {}});
      EXPECT_EQ(driver.report(), "");
      EXPECT_EQ(driver.dump().find("launch graph"), std::string::npos);
    }
}

// Connections of all lanes are there before the first step, in the order of
// lanes: one small group of the kinds of calls that come later.
TEST(NcclWorld, ConnectsBeforeTheFirstStep) {
  RecordingDriver driver;
  WorldSpec spec;
  spec.mesh = meshOf({2});
  spec.collectives.push_back(makeCollective(CollectiveKind::AllGather,
                                            axesOf(spec.mesh, {0}), {8}, 0));
  spec.collectives.push_back(
      makeCollective(CollectiveKind::Permute, axesOf(spec.mesh, {0}), {8}, 0));
  expectFine(runGpuRanks(spec, [](int64_t, GpuRank &) {}));
  EXPECT_EQ(driver.report(), "");
  for (int rank : {0, 1}) {
    std::string dump = driver.dump(),
                line = cat("rank", rank,
                           ".comm0.a:\n  nccl all_gather 1 send 1 to 0 recv 1 "
                           "from 0 send 1 to 1 recv 1 from 1\n");
    EXPECT_NE(dump.find(line), std::string::npos) << dump;
  }
}

// Collectives started together over one set of axes travel in one group.
TEST(NcclWorld, OneGroup) {
  RecordingDriver driver;
  WorldSpec spec;
  spec.mesh = meshOf({2});
  for (int i = 0; i < 2; ++i)
    spec.collectives.push_back(makeCollective(CollectiveKind::AllReduce,
                                              axesOf(spec.mesh, {0}), {8}, 0));
  runAndCompare(spec, 1);
  EXPECT_NE(driver.dump().find("nccl all_reduce 32 all_reduce 32\n"),
            std::string::npos)
      << driver.dump();
}

// Every lane of equal allocations is a symmetric window; where NCCL refuses one
// member, or allocations differ, none is, and everything works as before.
TEST(NcclWorld, SymmetricWindows) {
  WorldSpec spec;
  spec.mesh = meshOf({2, 2});
  for (const std::vector<int> &subset : {std::vector<int>{0}, {1}, {0, 1}})
    spec.collectives.push_back(makeCollective(
        CollectiveKind::AllReduce, axesOf(spec.mesh, subset), {8}, 0));
  auto windows = [&](const std::string &settings, const Worlds &how) {
    RecordingDriver driver(settings);
    runAndCompare(spec, 2, how);
    EXPECT_EQ(driver.report(), "");
    std::string dump = driver.dump();
    int count = 0;
    for (size_t at = 0; (at = dump.find("window of ", at)) != dump.npos; ++at)
      ++count;
    return count;
  };
  Worlds equal, different;
  different.pools = {1 << 20, 1 << 20, 1 << 21, 1 << 21};
  EXPECT_EQ(windows("", equal), 12);    // three lanes of each of four ranks
  EXPECT_EQ(windows("", different), 4); // those of the second axis
  equal.processes = true;
  equal.fingerprints = {"same", "same", "same", "same"};
  EXPECT_EQ(windows("", equal), 12);
  // The second member of each lane gets none: the first gives its own back.
  EXPECT_EQ(windows("refuse_window=1", equal), 7);
  for (const char *name : {"KERF_NCCL_SYMMETRIC", "KERF_NCCL_REGISTER"}) {
    ::setenv(name, "0", 1);
    EXPECT_EQ(windows("", equal), 0) << name;
    ::unsetenv(name);
  }
}

WorldSpec twoRanks(Injection::Fault fault, double deadline = 1) {
  WorldSpec spec;
  spec.mesh = meshOf({2});
  spec.deadlineSeconds = deadline;
  for (int i = 0; i < 3; ++i)
    spec.collectives.push_back(makeCollective(CollectiveKind::AllReduce,
                                              axesOf(spec.mesh, {0}), {8}, 0));
  spec.injection = Injection{1, 1, fault};
  return spec;
}

std::vector<Outcome> runThree(const WorldSpec &spec, const Worlds &how = {}) {
  auto body = [&](int64_t, GpuRank &gpu) {
    char *src = gpu.allocate(32), *dst = gpu.allocate(32);
    for (int s = 0; s < 3; ++s)
      gpu.step([&] {
        for (int64_t i = 0; i < 3; ++i) {
          gpu.comm->start(i, src, dst);
          gpu.comm->wait(i);
        }
      });
  };
  return runGpuRanks(spec, body, how);
}

TEST(NcclWorldFaults, Hang) {
  RecordingDriver driver;
  auto outcomes = runThree(twoRanks(Injection::Hang));
  ASSERT_TRUE(outcomes[0].failed);
  EXPECT_EQ(outcomes[0].error.code, KERF_RANK_FAILURE);
  EXPECT_NE(outcomes[0].error.message.find("1"), std::string::npos)
      << outcomes[0].error.message;
  ASSERT_EQ(outcomes[0].error.notes.size(), 2u);
  EXPECT_NE(outcomes[0].error.notes[1].find("rank 1: step 1, 1 calls enqueued"),
            std::string::npos)
      << outcomes[0].error.notes[1];
}

TEST(NcclWorldFaults, Die) {
  RecordingDriver driver;
  auto outcomes = runThree(twoRanks(Injection::Die));
  EXPECT_TRUE(outcomes[1].died);
  ASSERT_TRUE(outcomes[0].failed);
  EXPECT_EQ(outcomes[0].error.code, KERF_RANK_FAILURE);
}

// A rank that leaves a call out is found before anything is waited for.
TEST(NcclWorldFaults, Skip) {
  RecordingDriver driver;
  auto outcomes = runThree(twoRanks(Injection::Skip));
  for (const Outcome &o : outcomes) {
    ASSERT_TRUE(o.failed);
    EXPECT_EQ(o.error.code, KERF_MISMATCH);
    EXPECT_NE(
        o.error.message.find("ranks 0 and 1 run different collectives over a"),
        std::string::npos)
        << o.error.message;
  }
}

TEST(NcclWorldFaults, AsynchronousError) {
  RecordingDriver driver("nccl_error_rank=1");
  WorldSpec spec = twoRanks(Injection::Skip);
  spec.injection.reset();
  auto outcomes = runGpuRanks(spec, [&](int64_t, GpuRank &gpu) {
    char *src = gpu.allocate(32), *dst = gpu.allocate(32);
    for (int s = 0; s < 1000; ++s)
      gpu.step([&] {
        gpu.comm->start(0, src, dst);
        gpu.comm->wait(0);
        if (s == 0) // time for the watchdog to look
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
      });
  });
  ASSERT_TRUE(outcomes[0].failed && outcomes[1].failed);
  EXPECT_NE(outcomes[1].error.message.find("communication over a failed on "
                                           "rank 1"),
            std::string::npos)
      << outcomes[1].error.message;
  EXPECT_EQ(outcomes[0].error.message, outcomes[1].error.message);
  EXPECT_EQ(driver.report(), "");
}

// Worlds that share only a store, as in processes.
TEST(NcclWorld, AsProcesses) {
  RecordingDriver driver;
  WorldSpec spec;
  spec.mesh = meshOf({2, 2});
  for (CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather,
        CollectiveKind::AllToAll, CollectiveKind::Permute})
    for (const std::vector<int> &subset : {std::vector<int>{0}, {0, 1}})
      spec.collectives.push_back(
          makeCollective(kind, axesOf(spec.mesh, subset), {5, 3, 4}, 1));
  runAndCompare(spec, 3, {true, {"same", "same", "same", "same"}, {}});
  EXPECT_EQ(driver.report(), "");
}

TEST(NcclWorldFaults, OtherPackage) {
  RecordingDriver driver;
  WorldSpec spec = twoRanks(Injection::Skip);
  spec.injection.reset();
  for (const Outcome &o : runThree(spec, {true, {"a 1", "a 2"}, {}})) {
    ASSERT_TRUE(o.failed);
    EXPECT_EQ(o.error.code, KERF_MISMATCH);
    EXPECT_EQ(o.error.message, "ranks disagree on the package: rank 0 has a 1, "
                               "rank 1 has a 2");
  }
}

// A rank that is gone in the second step. Where the others have enqueued
// theirs, only the words that the GPU writes tell what hangs; where all capture
// it, they have launched nothing.
TEST(NcclWorldFaults, DiesInALaterStep) {
  for (const char *graphs : {"0", "1"})
    for (bool processes : {false, true}) {
      ::setenv("KERF_CUDA_GRAPH", graphs, 1);
      RecordingDriver driver;
      WorldSpec spec = twoRanks(Injection::Die);
      spec.injection->collective = 4;
      auto outcomes = runThree(spec, {processes, {"same", "same"}, {}});
      ::unsetenv("KERF_CUDA_GRAPH");
      EXPECT_TRUE(outcomes[1].died);
      ASSERT_TRUE(outcomes[0].failed);
      EXPECT_EQ(outcomes[0].error.code, KERF_RANK_FAILURE);
      EXPECT_EQ(outcomes[0].error.node, *graphs == '1' ? "" : "/node");
      EXPECT_EQ(outcomes[0].error.message,
                *graphs == '1'
                    ? "rank 1 did not join the 2 ranks of the job at graph-1 "
                      "within 1 s"
                    : "rank 1 did not arrive at all_reduce<sum> f32 8 at /node "
                      "(#1) within 1 s");
      EXPECT_EQ(driver.report(), "");
      EXPECT_EQ(driver.dump().find("launch graph"), std::string::npos);
    }
}

// A rank that fails when graphs are running: they are let go, and all
// communicators of a rank are aborted together.
TEST(NcclWorldFaults, FailsInAReplayedStep) {
  for (bool processes : {false, true}) {
    RecordingDriver driver;
    WorldSpec spec;
    spec.mesh = meshOf({2, 2});
    spec.deadlineSeconds = 1;
    for (int axis : {0, 1})
      spec.collectives.push_back(makeCollective(
          CollectiveKind::AllReduce, axesOf(spec.mesh, {axis}), {8}, 0));
    auto outcomes =
        runGpuRanks(spec,
                    [&](int64_t rank, GpuRank &gpu) {
                      char *src = gpu.allocate(32), *dst = gpu.allocate(32);
                      for (int s = 0; s < 4; ++s) {
                        if (rank == 1 && s == 3)
                          throw Error(KERF_INTERNAL, "a test");
                        gpu.step([&] {
                          for (int64_t i : {0, 1}) {
                            gpu.comm->start(i, src, dst);
                            gpu.comm->wait(i);
                          }
                        });
                      }
                    },
                    {processes, {"same", "same", "same", "same"}, {}});
    EXPECT_TRUE(outcomes[0].failed && outcomes[1].failed);
    EXPECT_EQ(driver.report(), "");
    EXPECT_NE(driver.dump().find("launch graph"), std::string::npos);
  }
}

// A call that NCCL refuses: its group ends before anything is aborted.
TEST(NcclWorldFaults, RefusedCall) {
  for (const char *graphs : {"0", "1"}) {
    ::setenv("KERF_CUDA_GRAPH", graphs, 1);
    RecordingDriver driver;
    WorldSpec spec = twoRanks(Injection::Skip);
    spec.injection.reset();
    auto outcomes = runGpuRanks(spec, [&](int64_t rank, GpuRank &gpu) {
      char *src = gpu.allocate(32), *dst = gpu.allocate(32);
      for (int s = 0; s < 2; ++s)
        gpu.step([&] {
          if (rank == 1 && s == 1)
            driver.configure("refuse_count=8");
          gpu.comm->start(0, src, dst);
          gpu.comm->wait(0);
        });
    });
    ::unsetenv("KERF_CUDA_GRAPH");
    ASSERT_TRUE(outcomes[0].failed && outcomes[1].failed);
    EXPECT_NE(outcomes[1].error.message.find("failed: invalid argument"),
              std::string::npos)
        << outcomes[1].error.message;
    EXPECT_EQ(driver.report(), "");
  }
}

} // namespace
