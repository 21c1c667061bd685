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
    rank->kept.resize(program.parameters.size());
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

static size_t localBytes(const BoundaryPart &tensor) {
  return static_cast<size_t>(numBytes(tensor.localShape, tensor.dtype));
}

/// What of a tensor lies at a rank: of `whole` to `local`, whose padding gets
/// `padding` in each byte.
static void copyIn(const kerf_rank &rank, const BoundaryPart &tensor,
                   int64_t microBatch, const void *whole, void *local,
                   int padding) {
  Part part = partOf(rank.ranks->program.mesh, tensor.sharding,
                     tensor.globalShape, rank.number, microBatch);
  if (part.sizes != tensor.localShape)
    std::memset(local, padding, localBytes(tensor));
  makeBoxCopy(tensor.globalShape, part.starts, tensor.localShape,
              Shape(part.starts.size(), 0), part.sizes, dtypeSize(tensor.dtype))
      .run(whole, local);
}

/// And back, without the padding.
static void copyOut(const BoundaryPart &tensor, const Part &part,
                    const void *local, void *whole) {
  makeBoxCopy(tensor.localShape, Shape(part.starts.size(), 0),
              tensor.globalShape, part.starts, part.sizes,
              dtypeSize(tensor.dtype))
      .run(local, whole);
}

void kerf::rt::takePart(const kerf_rank &rank, int64_t index,
                        int64_t microBatch, const void *whole, void *local) {
  copyIn(rank, boundaryPart(rank, index, microBatch), microBatch, whole, local,
         rank.ranks->padding);
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
  copyOut(tensor, part, local, whole);
}

size_t kerf_ranks::find(const char *name) const {
  for (size_t i = 0; name && i < program.parameters.size(); ++i)
    if (program.parameters[i].name == name)
      return i;
  throw Error(KERF_INVALID_ARGUMENT,
              cat("the program has no parameter \"", name ? name : "", "\""));
}

void kerf_ranks::write(const char *name, const void *whole) {
  size_t index = find(name);
  const RanksParameter &parameter = program.parameters[index];
  for (const auto &rank : ranks)
    if (parameter.isIn(program.mesh.stageOf(rank->number))) {
      rank->kept[index].resize(localBytes(parameter));
      copyIn(*rank, parameter, 0, whole, rank->kept[index].data(), 0);
    }
}

void kerf_ranks::read(const char *name, void *whole) const {
  size_t index = find(name);
  const RanksParameter &parameter = program.parameters[index];
  for (const auto &rank : ranks) {
    if (!parameter.isIn(program.mesh.stageOf(rank->number)))
      continue;
    if (rank->kept[index].empty() && localBytes(parameter) != 0)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat("parameter \"", name, "\" has no value"));
    // Ranks that keep the same part keep the same values.
    copyOut(parameter,
            partOf(program.mesh, parameter.sharding, parameter.globalShape,
                   rank->number, 0),
            rank->kept[index].data(), whole);
  }
}

static const RanksParameter &keptBy(const kerf_rank &rank, int64_t index) {
  const RanksProgram &program = rank.ranks->program;
  if (index < 0 || index >= static_cast<int64_t>(program.parameters.size()))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("parameter ", index, " of ", program.parameters.size()));
  const RanksParameter &parameter = program.parameters[index];
  if (!parameter.isIn(program.mesh.stageOf(rank.number)))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("parameter \"", parameter.name, "\" is not kept by rank ",
                    rank.number));
  return parameter;
}

void kerf::rt::loadKept(const kerf_rank &rank, int64_t index, void *local) {
  const RanksParameter &parameter = keptBy(rank, index);
  if (rank.kept[index].empty() && localBytes(parameter) != 0)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("parameter \"", parameter.name,
                    "\" has no value, which kerf_ranks_write gives it"));
  std::memcpy(local, rank.kept[index].data(), localBytes(parameter));
}

void kerf::rt::storeKept(kerf_rank &rank, int64_t index, const void *local) {
  const RanksParameter &parameter = keptBy(rank, index);
  const auto *bytes = static_cast<const std::byte *>(local);
  rank.kept[index].assign(bytes, bytes + localBytes(parameter));
}
