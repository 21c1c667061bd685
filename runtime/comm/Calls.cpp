//===- Calls.cpp - how every back end counts its calls --------------------===//
#include "Calls.h"

#include <chrono>
#include <thread>

using namespace kerf::rt;

void CallHash::add(int64_t index, const CollectiveDesc &desc) {
  for (uint64_t part :
       {static_cast<uint64_t>(index), static_cast<uint64_t>(desc.kind),
        static_cast<uint64_t>(desc.reduction),
        static_cast<uint64_t>(desc.dtype),
        static_cast<uint64_t>(numElements(desc.srcShape))})
    add(part);
}

std::optional<Error> CallOrder::refusal(int64_t rank, int64_t index,
                                        const CollectiveDesc &desc,
                                        bool idle) const {
  if (!idle)
    return Error(KERF_INTERNAL,
                 cat(describe(desc, index), " is started twice on rank ", rank),
                 desc.node);
  if (started == KERF_MAX_STARTED)
    return Error(KERF_INTERNAL,
                 cat("more than ", KERF_MAX_STARTED,
                     " collectives are started at ", describe(desc, index),
                     " on rank ", rank),
                 desc.node);
  return std::nullopt;
}

CommCounters kerf::rt::countersOf(const WorldSpec &spec) {
  CommCounters counters;
  counters.collectives.resize(spec.collectives.size());
  counters.sends.resize(spec.channels.size());
  counters.receives.resize(spec.channels.size());
  return counters;
}

Error kerf::rt::offerMismatch(const WorldSpec &spec, int64_t channel,
                              const MessageOffer &offer, int64_t rank,
                              int64_t microBatch) {
  const ChannelDesc &desc = spec.channels[channel];
  return Error(KERF_MISMATCH,
               cat("channel ", channel, ": rank ", offer.fromRank, " sends ",
                   offer.bytes, " bytes of micro-batch ", offer.microBatch,
                   ", rank ", rank, " expects ", desc.bytes(),
                   " bytes of micro-batch ", microBatch),
               desc.node);
}

bool FaultPoint::strikes(const std::function<bool()> &released) {
  if (!injection || injection->rank != rank || injection->collective != calls++)
    return false;
  if (injection->fault == Injection::Hang)
    while (!released())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (injection->fault != Injection::Skip)
    throw RankDied();
  return true;
}
