//===- RankState.cpp - several states of one rank -------------------------===//
//
// Programs get the addresses of parameters with each call, so another state is
// a few pointers. Its memory is allocated by whoever makes it, not in a step.
//
//===----------------------------------------------------------------------===//
#include "Rank.h"

#include <cstring>

using namespace kerf::rt;

RankState Rank::makeState() {
  RankState made(own.size());
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i])
      made[i] = device->allocate(
          own[i]->bytes, ("state " + manifest.parameters[i].name).c_str());
  resetState(made);
  return made;
}

void Rank::resetState(const RankState &state) const {
  for (size_t i = 0; i < state.size(); ++i)
    if (state[i])
      ParameterStore::fillSplat(manifest.parameters[i], state[i]->data);
}

void Rank::copyState(const RankState &from, const RankState &to) const {
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i])
      std::memcpy(to[i]->data, from[i]->data,
                  static_cast<size_t>(from[i]->bytes));
}

void Rank::useState(const RankState &state) {
  for (size_t i = 0; i < state.size(); ++i)
    if (state[i])
      params[i] = state[i]->data;
}
