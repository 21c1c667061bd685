//===- Reports.cpp - data as bytes for rank 0 -----------------------------===//
#include "Reports.h"

using namespace kerf::rt;

std::string kerf::rt::packCounters(const CommCounters &counters) {
  Packer packer;
  packer.add(counters.collectives);
  packer.add(counters.sends);
  packer.add(counters.receives);
  return packer.take();
}

CommCounters kerf::rt::unpackCounters(const std::string &text,
                                      const WorldSpec &spec) {
  CommCounters counters;
  Unpacker unpacker(text);
  unpacker.get(counters.collectives);
  unpacker.get(counters.sends);
  unpacker.get(counters.receives);
  if (counters.collectives.size() != spec.collectives.size() ||
      counters.sends.size() != spec.channels.size() ||
      counters.receives.size() != spec.channels.size())
    throw Error(KERF_MISMATCH, "a rank runs another package");
  return counters;
}
