//===- SessionStates.cpp - states beside a session's own ------------------===//
#include "Session.h"

using namespace kerf::rt;

void Session::requireStates() const {
  const Manifest &m = state->package->manifest;
  if (broken)
    throw Error(KERF_INVALID_ARGUMENT, "the session has failed before");
  if (state->job)
    throw Error(KERF_INVALID_ARGUMENT,
                "ranks are processes of a job, which have one state each");
  bool keeps = false;
  for (const Parameter &p : m.parameters) {
    if (p.isMutable && p.source != Parameter::Splat)
      throw Error(KERF_INVALID_ARGUMENT,
                  "steps write the weight \"" + p.name +
                      "\", which belongs to the session");
    keeps |= p.isMutable;
  }
  if (!keeps)
    throw Error(KERF_INVALID_ARGUMENT, "steps of the package keep no state");
  for (const auto &rank : state->ranks)
    if (!rank->onHost())
      throw Error(KERF_INVALID_ARGUMENT,
                  "a session on GPUs has one state, its own");
}

void Session::requireOwn(const SessionState &which) const {
  bool fits = which.path == state->package->path &&
              which.ranks.size() == state->ranks.size();
  for (size_t i = 0; fits && i < which.ranks.size(); ++i)
    fits = state->ranks[i]->takesState(which.ranks[i]);
  if (!fits)
    throw Error(KERF_INVALID_ARGUMENT,
                "the state is of another package than the session");
}

std::shared_ptr<SessionState> Session::makeState() {
  requireStates();
  auto made = std::make_shared<SessionState>();
  made->path = state->package->path;
  for (const auto &rank : state->ranks)
    made->ranks.push_back(rank->makeState());
  return made;
}

const RankState &Session::stateOf(size_t rank,
                                  const SessionState *which) const {
  if (!which)
    which = state->used.get();
  return which ? which->ranks[rank] : state->ranks[rank]->ownState();
}

std::shared_ptr<SessionState> Session::forkState(const SessionState *from) {
  if (from)
    requireOwn(*from);
  std::shared_ptr<SessionState> made = makeState();
  for (size_t i = 0; i < made->ranks.size(); ++i)
    state->ranks[i]->copyState(stateOf(i, from), made->ranks[i]);
  return made;
}

void Session::resetState(SessionState *which) {
  requireStates();
  if (which)
    requireOwn(*which);
  for (size_t i = 0; i < state->ranks.size(); ++i)
    state->ranks[i]->resetState(stateOf(i, which));
}

void Session::useState(std::shared_ptr<SessionState> which) {
  requireStates();
  if (which == state->used)
    return;
  if (which) {
    requireOwn(*which);
    const Session *nobody = nullptr;
    if (!which->user.compare_exchange_strong(nobody, this))
      throw Error(KERF_INVALID_ARGUMENT, "another session uses the state");
  }
  for (size_t i = 0; i < state->ranks.size(); ++i)
    state->ranks[i]->useState(which ? which->ranks[i]
                                    : state->ranks[i]->ownState());
  if (state->used)
    state->used->user = nullptr;
  state->used = std::move(which);
}
