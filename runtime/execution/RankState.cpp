//===- RankState.cpp - several states of one rank -------------------------===//
//
// Programs get the addresses of parameters with each call, so another state is
// a few pointers. Its memory is allocated by whoever makes it, not in a step.
//
//===----------------------------------------------------------------------===//
#include "Rank.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

RankState Rank::makeState() {
  RankState made;
  for (const auto &[name, memory] : own)
    made[name] = device->allocate(memory->bytes, ("state " + name).c_str());
  resetState(made);
  return made;
}

void Rank::resetState(const RankState &state) const {
  for (const Parameter &p : manifest.parameters)
    if (auto found = state.find(p.name); found != state.end() && p.isMutable)
      ParameterStore::fillSplat(p, found->second->data);
}

void Rank::copyState(const RankState &from, const RankState &to) const {
  for (const auto &[name, memory] : from)
    std::memcpy(to.at(name)->data, memory->data,
                static_cast<size_t>(memory->bytes));
}

bool Rank::takesState(const RankState &state) const {
  return state.size() == own.size() &&
         std::all_of(own.begin(), own.end(), [&](const auto &entry) {
           auto found = state.find(entry.first);
           return found != state.end() &&
                  found->second->bytes == entry.second->bytes;
         });
}

void Rank::useState(const RankState &state) {
  for (size_t i = 0; i < params.size(); ++i)
    if (manifest.parameters[i].isMutable && params[i])
      params[i] = state.at(manifest.parameters[i].name)->data;
}
