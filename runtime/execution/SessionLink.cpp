//===- SessionLink.cpp - one session over the processes of a job ----------===//
#include "SessionLink.h"

#include <algorithm>
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace kerf::rt;

using Guard = std::lock_guard<std::recursive_mutex>;

namespace {
enum Stream : uint32_t { Commands, Outputs, Parts, NumStreams };
}

SessionLink::SessionLink(std::shared_ptr<Job> given,
                         std::shared_ptr<const Package> opened)
    : job(std::move(given)), package(std::move(opened)),
      tags(job->allocateTags(NumStreams)),
      requests(static_cast<size_t>(job->size())) {
  int64_t ranks = package->manifest.mesh.numRanks();
  if (ranks != job->size())
    throw Error(KERF_INVALID_ARGUMENT,
                cat("the package has ", ranks, ranks == 1 ? " rank" : " ranks",
                    ", the job has ", job->size(), " processes"));
  for (int64_t r = 0; r < ranks; ++r)
    outputParts.push_back(leads() || r == rank() ? partsOf(r)
                                                 : std::vector<Part>());
}

SessionLink::~SessionLink() {
  Guard guard(job->mutex());
  for (Request &request : requests)
    job->transport().cancel(request);
}

// As Rank::prepareOutput: of ranks with the same part the lowest stores it.
std::vector<SessionLink::Part> SessionLink::partsOf(int64_t rank) const {
  const Manifest &m = package->manifest;
  std::vector<Part> parts;
  int64_t stage = m.mesh.stageOf(rank);
  for (const Instruction &in : m.stages[stage].instructions) {
    if (in.op != Instruction::Output)
      continue;
    const GlobalTensor &t = m.outputs[in.index];
    auto partOfRank = [&](int64_t r) {
      return partOf(m.mesh, t.sharding, t.globalShape, r, in.microBatch);
    };
    auto part = partOfRank(rank);
    bool stored = false;
    for (int64_t r = 0; r < rank && !stored; ++r)
      if (m.mesh.stageOf(r) == stage) {
        auto other = partOfRank(r);
        stored = other.starts == part.starts && other.sizes == part.sizes;
      }
    int64_t bytes = numBytes(part.sizes, t.dtype);
    if (stored || bytes == 0)
      continue;
    BoxCopy copy = makeBoxCopy(t.globalShape, part.starts, part.sizes,
                               Shape(part.sizes.size(), 0), part.sizes,
                               dtypeSize(t.dtype));
    bool direct = copy.loops.empty();
    parts.push_back({in.index, std::move(copy), bytes, direct});
  }
  return parts;
}

void SessionLink::agree() {
  MappedFile manifest(package->path + "/manifest.json");
  uint64_t hash = XXH3_64bits(manifest.data(), manifest.size());
  std::vector<std::string> all = job->gather(
      std::string(reinterpret_cast<char *>(&hash), sizeof(hash)), "load");
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0]) {
      Error error(KERF_MISMATCH, cat("ranks 0 and ", r,
                                     " run different packages: their "
                                     "manifest.json differ"));
      job->fail(error);
      throw error;
    }
  char go = 1;
  job->broadcast(&go, 1);
}

void SessionLink::transfer(Request &request, bool send, int64_t peer,
                           uint32_t tag, void *data, int64_t bytes,
                           const char *what) {
  {
    Guard guard(job->mutex());
    if (send)
      job->transport().send(request, peer, tag, data,
                            static_cast<size_t>(bytes));
    else
      job->transport().receive(request, peer, tag, data,
                               static_cast<size_t>(bytes));
  }
  job->awaitAlive(request, peer, what);
}

void SessionLink::command(const Command &command) {
  // `outgoing` is free: the others have acted upon the previous command.
  outgoing = command;
  {
    Guard guard(job->mutex());
    for (int64_t r = 1; r < job->size(); ++r)
      job->transport().send(requests[r], r, tags + Commands, &outgoing,
                            sizeof(outgoing));
  }
  for (int64_t r = 1; r < job->size(); ++r)
    job->awaitAlive(requests[r], r, "take rank 0's word");
}

SessionLink::Command SessionLink::next() {
  transfer(requests[0], false, 0, tags + Commands, &incoming, sizeof(incoming),
           "say what comes next");
  return incoming;
}

void SessionLink::gatherOutputs(const std::vector<char *> &outputs) {
  auto stage = [&](const Part &part) {
    if (static_cast<int64_t>(staging.size()) < part.bytes)
      staging.resize(static_cast<size_t>(part.bytes));
    return staging.data();
  };
  Request request;
  if (!leads()) {
    for (const Part &part : outputParts[rank()]) {
      char *data = outputs[part.output] + part.copy.srcOffset;
      if (!part.direct) {
        data = stage(part);
        part.copy.run(outputs[part.output], data);
      }
      transfer(request, true, 0, tags + Outputs, data, part.bytes,
               "take an output");
    }
    return;
  }
  for (int64_t r = 1; r < job->size(); ++r)
    for (const Part &part : outputParts[r]) {
      char *global = outputs[part.output];
      char *data = part.direct ? global + part.copy.srcOffset : stage(part);
      transfer(request, false, r, tags + Outputs, data, part.bytes,
               "end its step");
      if (part.direct)
        continue;
      part.copy.forEachRun([&](int64_t at, int64_t packed) {
        std::memcpy(global + at, data + packed,
                    static_cast<size_t>(part.copy.runBytes));
      });
    }
}

void SessionLink::shareSmall(const std::vector<char *> &outputs) {
  const Manifest &m = package->manifest;
  std::vector<char> all;
  auto forEach = [&](auto &&visit) {
    size_t at = 0;
    for (size_t i = 0; i < m.outputs.size(); ++i) {
      int64_t bytes = numBytes(m.outputs[i].globalShape, m.outputs[i].dtype);
      if (bytes > smallBytes)
        continue;
      visit(outputs[i], at, static_cast<size_t>(bytes));
      at += static_cast<size_t>(bytes);
    }
    return at;
  };
  all.resize(forEach([](char *, size_t, size_t) {}) + 1);
  if (leads())
    forEach([&](char *output, size_t at, size_t bytes) {
      if (bytes)
        std::memcpy(all.data() + at, output, bytes);
    });
  job->broadcast(all.data(), all.size());
  if (!leads())
    forEach([&](char *output, size_t at, size_t bytes) {
      if (bytes)
        std::memcpy(output, all.data() + at, bytes);
    });
}

void SessionLink::receivePart(int64_t from, int64_t index, char *data) {
  const Parameter &p = package->manifest.parameters[index];
  Request request;
  transfer(request, false, from, tags + Parts, data,
           numBytes(p.localShape, p.dtype), "give its part of a parameter");
}

void SessionLink::sendPart(int64_t to, int64_t index, const char *data) {
  const Parameter &p = package->manifest.parameters[index];
  Request request;
  transfer(request, true, to, tags + Parts, const_cast<char *>(data),
           numBytes(p.localShape, p.dtype), "take its part of a parameter");
}
