//===- Comm.cpp - shared by all communication back ends -------------------===//
//
// Parsing of injected faults, and the check that counted bytes are the planned
// bytes and that they were really moved.
//
//===----------------------------------------------------------------------===//
#include "Comm.h"

#include <cstdlib>

using namespace kerf::rt;

Injection kerf::rt::parseInjection(const std::string &text) {
  Injection injection;
  auto bad = [&](const std::string &why) {
    throw Error(KERF_INVALID_ARGUMENT,
                cat("bad fault injection '", text, "': ", why,
                    ", expected rank=R,collective=K,fault=die|hang|skip"));
  };
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    size_t eq = part.find('=');
    std::string key = part.substr(0, eq);
    std::string value = eq == std::string::npos ? "" : part.substr(eq + 1);
    if (key == "fault") {
      if (value == "die")
        injection.fault = Injection::Die;
      else if (value == "hang")
        injection.fault = Injection::Hang;
      else if (value == "skip")
        injection.fault = Injection::Skip;
      else
        bad(cat("unknown fault '", value, "'"));
    } else if (key == "rank" || key == "collective") {
      char *end = nullptr;
      long long number = std::strtoll(value.c_str(), &end, 10);
      if (value.empty() || *end || number < 0)
        bad(cat("'", value, "' is not a number"));
      (key == "rank" ? injection.rank : injection.collective) = number;
    } else {
      bad(cat("unknown key '", key, "'"));
    }
  }
  if (injection.rank < 0)
    bad("no rank");
  return injection;
}

static void
checkCollectiveBytes(const WorldSpec &spec, int64_t index,
                     const std::vector<const CommCounters *> &counters) {
  const CollectiveDesc &desc = spec.collectives[index];
  std::vector<bool> seen(counters.size());
  for (size_t rank = 0; rank < counters.size(); ++rank) {
    const CommCounters::Entry &mine = counters[rank]->collectives[index];
    if (seen[rank] || mine.calls == 0)
      continue;
    int64_t moved = 0;
    for (int64_t member :
         spec.mesh.group(static_cast<int64_t>(rank), desc.axes)) {
      const CommCounters::Entry &entry = counters[member]->collectives[index];
      moved += entry.movedBytes + entry.paddedBytes;
      seen[member] = true;
    }
    int64_t planned = desc.plannedGroupBytes < 0
                          ? mine.groupBytes
                          : desc.plannedGroupBytes * mine.calls;
    if (mine.groupBytes != planned)
      throw Error(KERF_BYTES_DIFFER,
                  cat("counted bytes of ", describe(desc, index), " are ",
                      mine.groupBytes, ", planned are ", planned, " in ",
                      mine.calls, " calls"),
                  desc.node);
    if (moved != planned)
      throw Error(KERF_BYTES_DIFFER,
                  cat("bytes moved by ", describe(desc, index), " are ", moved,
                      ", planned are ", planned, " in ", mine.calls, " calls"),
                  desc.node);
  }
}

static void
checkChannelBytes(const WorldSpec &spec, int64_t index,
                  const std::vector<const CommCounters *> &counters) {
  const ChannelDesc &desc = spec.channels[index];
  for (size_t rank = 0; rank < counters.size(); ++rank) {
    const CommCounters::Entry &sent = counters[rank]->sends[index];
    if (sent.calls == 0)
      continue;
    int64_t peer =
        spec.mesh.withStage(static_cast<int64_t>(rank), desc.toStage);
    const CommCounters::Entry &got = counters[peer]->receives[index];
    int64_t planned =
        (desc.plannedBytes < 0 ? desc.bytes() : desc.plannedBytes) * sent.calls;
    if (sent.groupBytes != planned || got.movedBytes != planned)
      throw Error(KERF_BYTES_DIFFER,
                  cat("channel ", index, " counted ", sent.groupBytes,
                      " bytes and moved ", got.movedBytes, ", planned are ",
                      planned, " in ", sent.calls, " sends"),
                  desc.node);
  }
}

void kerf::rt::checkBytes(const WorldSpec &spec,
                          const std::vector<const CommCounters *> &counters) {
  for (size_t i = 0; i < spec.collectives.size(); ++i)
    checkCollectiveBytes(spec, static_cast<int64_t>(i), counters);
  for (size_t i = 0; i < spec.channels.size(); ++i)
    checkChannelBytes(spec, static_cast<int64_t>(i), counters);
}
