//===- Ranks.cpp - thread ranks that run foreign code ---------------------===//
#include "Ranks.h"

#include "../base/Boxes.h"

#include <algorithm>
#include <cstring>
#include <thread>

using namespace kerf::rt;

kerf_ranks::kerf_ranks(const char *text, double deadlineSeconds, int padding)
    : program(parseRanksProgram(text)), padding(padding) {
  spec.mesh = program.mesh;
  spec.collectives = program.collectives;
  spec.channels = program.channels;
  spec.deadlineSeconds = deadlineSeconds;
  spec.maxSends = std::max(spec.maxSends, program.mesh.numMicroBatches());
  world = makeThreadWorld(spec);
  for (int64_t number = 0; number < program.mesh.numRanks(); ++number) {
    auto rank = std::make_unique<kerf_rank>();
    rank->ranks = this;
    rank->number = number;
    rank->comm = world->join(number);
    rank->openSends.resize(program.channels.size());
    ranks.push_back(std::move(rank));
  }
}

void kerf_ranks::awaitOthers() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const auto &rank : ranks)
    while (rank->inside.load())
      std::this_thread::yield();
}

void kerf_ranks::run(kerf_rank_function_t function, void *user) {
  if (broken)
    throw Error(KERF_INVALID_ARGUMENT, "the ranks have failed before");
  broken = true;
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  for (const auto &rank : ranks) {
    try {
      threads.emplace_back([this, &rank, function, user] {
        try {
          function(rank.get(), user);
        } catch (...) { // from a host in C++
          world->fail(currentError());
        }
      });
    } catch (...) { // ranks that have begun must not wait for this one
      world->fail(currentError());
      break;
    }
  }
  for (std::thread &thread : threads)
    thread.join();
  if (world->failed())
    throw world->failure();
  std::vector<const CommCounters *> counters;
  for (const auto &rank : ranks)
    counters.push_back(&rank->comm->counters());
  checkBytes(spec, counters);
  broken = false;
}

int64_t kerf_ranks::sentBytes() const {
  int64_t sum = 0;
  // Each member of a group counts what all of them send.
  for (size_t i = 0; i < program.collectives.size(); ++i) {
    int64_t ofGroups = 0;
    for (const auto &rank : ranks)
      ofGroups = addChecked(ofGroups,
                            rank->comm->counters().collectives[i].groupBytes);
    sum += ofGroups / Mesh::sizeOf(program.collectives[i].axes);
  }
  for (const auto &rank : ranks)
    for (const CommCounters::Entry &entry : rank->comm->counters().sends)
      sum = addChecked(sum, entry.groupBytes);
  return sum;
}

static const BoundaryPart &boundaryPart(const kerf_rank &rank, int64_t part,
                                        int64_t microBatch) {
  const RanksProgram &program = rank.ranks->program;
  if (part < 0 || part >= static_cast<int64_t>(program.parts.size()))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("part ", part, " of ", program.parts.size()));
  if (microBatch < 0 || microBatch >= program.mesh.numMicroBatches())
    throw Error(KERF_INVALID_ARGUMENT, cat("micro-batch ", microBatch, " of ",
                                           program.mesh.numMicroBatches()));
  return program.parts[part];
}

void kerf::rt::takePart(const kerf_rank &rank, int64_t index,
                        int64_t microBatch, const void *whole, void *local) {
  const BoundaryPart &tensor = boundaryPart(rank, index, microBatch);
  Part part = partOf(rank.ranks->program.mesh, tensor.sharding,
                     tensor.globalShape, rank.number, microBatch);
  if (part.sizes != tensor.localShape)
    std::memset(local, rank.ranks->padding,
                static_cast<size_t>(numBytes(tensor.localShape, tensor.dtype)));
  makeBoxCopy(tensor.globalShape, part.starts, tensor.localShape,
              Shape(part.starts.size(), 0), part.sizes, dtypeSize(tensor.dtype))
      .run(whole, local);
}

void kerf::rt::givePart(const kerf_rank &rank, int64_t index,
                        int64_t microBatch, const void *local, void *whole) {
  const BoundaryPart &tensor = boundaryPart(rank, index, microBatch);
  const Mesh &mesh = rank.ranks->program.mesh;
  auto partOfRank = [&](int64_t number) {
    return partOf(mesh, tensor.sharding, tensor.globalShape, number,
                  microBatch);
  };
  Part part = partOfRank(rank.number);
  for (int64_t other = 0; other < rank.number; ++other)
    if (mesh.stageOf(other) == mesh.stageOf(rank.number)) {
      Part given = partOfRank(other);
      if (given.starts == part.starts && given.sizes == part.sizes)
        return;
    }
  makeBoxCopy(tensor.localShape, Shape(part.starts.size(), 0),
              tensor.globalShape, part.starts, part.sizes,
              dtypeSize(tensor.dtype))
      .run(local, whole);
}
