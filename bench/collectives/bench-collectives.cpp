//===- bench-collectives.cpp - all-reduce of thread ranks, and memcpy -----===//
//
//   kerf-bench-collectives RANKS BYTES ROUNDS
//
// Prints two medians in microseconds: one f32 all_reduce over RANKS threads,
// until the last rank has left it, and one memcpy of the same bytes on one
// thread. The two alternate, so that both see the same machine. Buffers are
// written before the first round.
//
//===----------------------------------------------------------------------===//
#include "comm/Comm.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

using namespace kerf::rt;

static double now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: kerf-bench-collectives RANKS BYTES ROUNDS\n");
    return 2;
  }
  int64_t ranks = std::atoll(argv[1]), count = std::atoll(argv[2]) / 4;
  int rounds = std::atoi(argv[3]);
  WorldSpec spec;
  spec.mesh.axes = {{"tp", ranks}};
  CollectiveDesc all, sync;
  all.axes = sync.axes = {{0, ranks, 1}};
  all.srcShape = all.dstShape = {count};
  sync.srcShape = sync.dstShape = {1};
  spec.collectives = {all, sync};
  auto world = makeThreadWorld(spec);
  std::vector<double> reduceTimes, copyTimes;
  std::vector<float *> src, dst; // aligned as in an arena
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (auto *list : {&src, &dst}) {
      list->push_back(static_cast<float *>(std::aligned_alloc(
          64, static_cast<size_t>(ceilDiv(count * 4, 64) * 64))));
      std::fill_n(list->back(), count, 1.f);
    }
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = world->join(rank);
      float token = 0;
      for (int round = 0; round < rounds + 5; ++round) {
        if (rank == 0) { // the others wait in the next synchronisation
          double begin = now();
          std::memcpy(dst[0], src[0], count * sizeof(float));
          asm volatile("" : : "r"(dst[0]) : "memory");
          if (round >= 5)
            copyTimes.push_back(now() - begin);
        }
        comm->start(1, &token, &token);
        comm->wait(1);
        double begin = now();
        comm->start(0, src[rank], dst[rank]);
        comm->wait(0); // ends when all have finished
        if (rank == 0 && round >= 5)
          reduceTimes.push_back(now() - begin);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const float *part : dst)
    if (std::any_of(part, part + count, [&](float value) {
          return value != static_cast<float>(ranks);
        })) {
      std::fprintf(stderr, "error: wrong sum\n");
      return 1;
    }
  std::printf("%.2f %.2f\n", median(reduceTimes), median(copyTimes));
}
