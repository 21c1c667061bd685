//===- Session.cpp - ranks as threads, run step by step -------------------===//
//
// Generation 0 is loading, every step is one more. The session's own wait needs
// a deadline, too: once some rank has ended its list, the others must go on
// from instruction to instruction within the deadline. After a failure ranks
// get a moment to come back, then the failure is reported without them.
//
//===----------------------------------------------------------------------===//
#include "Session.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace kerf::rt;

using SteadyClock = std::chrono::steady_clock;

static double secondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

static int64_t mostSends(const Manifest &m) {
  int64_t most = 1;
  for (const StageDesc &stage : m.stages)
    for (size_t c = 0; c < m.channels.size(); ++c)
      most = std::max<int64_t>(
          most,
          std::count_if(stage.instructions.begin(), stage.instructions.end(),
                        [&](const Instruction &i) {
                          return i.op == Instruction::Send &&
                                 i.index == static_cast<int64_t>(c);
                        }));
  return most;
}

Session::Session(std::shared_ptr<const Package> package,
                 const SessionOptions &options)
    : state(std::make_shared<State>(package, options.stored)) {
  auto begin = SteadyClock::now();
  const Manifest &m = package->manifest;
  int64_t ranks = m.mesh.numRanks();
  state->spec.mesh = m.mesh;
  state->spec.collectives = m.collectives;
  state->spec.channels = m.channels;
  state->spec.deadlineSeconds = options.deadlineSeconds;
  state->spec.injection = options.injection;
  state->spec.maxSends = mostSends(m);
  if (options.injection && options.injection->rank >= ranks)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("fault for rank ", options.injection->rank, " of ", ranks));
  state->world = makeThreadWorld(state->spec);
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  state->threads =
      options.threads > 0
          ? options.threads
          : static_cast<int32_t>(std::max<int64_t>(1, cores / ranks));
  state->trace = options.trace;
  state->ranks.resize(ranks);
  state->doneRanks.resize(ranks);
  auto host = makeCpuDevice(0, 1, state->packs);
  for (const GlobalTensor &t : m.outputs) {
    state->outputs.push_back(
        host->allocate(numBytes(t.globalShape, t.dtype), "an output"));
    state->io.outputs.push_back(
        static_cast<char *>(state->outputs.back()->data));
  }
  state->io.inputs.resize(m.inputs.size());
  for (int64_t rank = 0; rank < ranks; ++rank)
    workers.emplace_back(rankThread, state, rank);
  try {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return state->done == ranks; }); // loading
    lock.unlock();
    if (state->world->failed())
      throw state->world->failure();
  } catch (...) {
    shutDown();
    throw;
  }
  state->store.release();
  loadTime = secondsSince(begin);
}

Session::~Session() { shutDown(); }

void Session::shutDown() {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->closing = true;
  }
  state->changed.notify_all();
  state->world->release();
  std::unique_lock<std::mutex> lock(state->mutex);
  bool all = state->changed.wait_for(lock, std::chrono::seconds(1), [&] {
    return state->ended == static_cast<int64_t>(workers.size());
  });
  lock.unlock();
  for (std::thread &worker : workers)
    if (worker.joinable()) {
      if (all)
        worker.join();
      else
        worker.detach(); // it holds the state
    }
  workers.clear();
}

void Session::rankThread(std::shared_ptr<State> state, int64_t rank) {
  // An injected death leaves without a word: nobody counts it as done.
  bool died = false;
  auto attempt = [&](auto &&body) {
    try {
      body();
    } catch (const RankDied &) {
      died = true;
    } catch (...) {
      Error error = currentError();
      state->world->fail(error);
    }
  };
  auto finish = [&] {
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      ++state->done;
      state->doneRanks[rank] = true;
    }
    state->changed.notify_all();
  };
  attempt([&] {
    state->ranks[rank] = std::make_unique<Rank>(
        state->package, rank, state->threads, *state->world, state->store,
        state->packs, state->io, state->trace);
  });
  finish();
  for (int64_t seen = 0; !died;) {
    {
      std::unique_lock<std::mutex> lock(state->mutex);
      state->changed.wait(
          lock, [&] { return state->closing || state->generation != seen; });
      if (state->closing)
        break;
      seen = state->generation;
    }
    attempt([&] { state->ranks[rank]->step(state->io); });
    if (!died)
      finish();
  }
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    ++state->ended;
  }
  state->changed.notify_all();
}

Error Session::stuck(const std::vector<int64_t> &progress) const {
  for (size_t rank = 0; rank < progress.size(); ++rank)
    if (!state->doneRanks[rank])
      return Error(KERF_RANK_FAILURE,
                   cat("rank ", rank, " did not get on from instruction ",
                       progress[rank], " within ", state->spec.deadlineSeconds,
                       " s"),
                   "", state->world->lastCollectives());
  return Error(KERF_INTERNAL, "no rank is stuck");
}

void Session::runGeneration() {
  int64_t ranks = static_cast<int64_t>(workers.size());
  std::unique_lock<std::mutex> lock(state->mutex);
  state->done = 0;
  std::fill(state->doneRanks.begin(), state->doneRanks.end(), false);
  ++state->generation;
  state->changed.notify_all();
  auto allDone = [&] { return state->done == ranks; };
  std::vector<int64_t> last(ranks, -1);
  auto lastChange = SteadyClock::now(), failedSince = lastChange;
  bool sawFailure = false;
  while (
      !state->changed.wait_for(lock, std::chrono::milliseconds(50), allDone)) {
    if (state->world->failed()) {
      if (!sawFailure)
        failedSince = SteadyClock::now();
      sawFailure = true;
      if (secondsSince(failedSince) > 2)
        break; // without those that do not come back
      continue;
    }
    std::vector<int64_t> progress;
    for (auto &rank : state->ranks)
      progress.push_back(rank->progress());
    if (progress != last || state->done == 0)
      lastChange = SteadyClock::now();
    last = progress;
    // The ranks' own deadlines, which know more, come first.
    if (secondsSince(lastChange) > state->spec.deadlineSeconds + 0.5)
      state->world->fail(stuck(progress));
  }
  lock.unlock();
  if (state->world->failed())
    throw state->world->failure();
}

void Session::run() {
  if (broken)
    throw Error(KERF_INVALID_ARGUMENT, "the session has failed before");
  const Manifest &m = state->package->manifest;
  for (size_t i = 0; i < m.inputs.size(); ++i)
    if (!state->io.inputs[i])
      throw Error(KERF_INVALID_ARGUMENT,
                  "input \"" + m.inputs[i].name + "\" is not set");
  auto begin = SteadyClock::now();
  broken = true;
  runGeneration();
  steps.push_back(secondsSince(begin));
  std::vector<const CommCounters *> counters;
  for (auto &rank : state->ranks)
    counters.push_back(&rank->counters());
  checkBytes(state->spec, counters);
  broken = false;
}

void Session::setInput(int64_t index, const void *data, size_t bytes) {
  const auto &inputs = state->package->manifest.inputs;
  if (index < 0 || index >= static_cast<int64_t>(inputs.size()))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("input ", index, " of ", inputs.size()));
  const GlobalTensor &t = inputs[index];
  size_t expected = static_cast<size_t>(numBytes(t.globalShape, t.dtype));
  if (bytes != expected || (!data && expected != 0))
    throw Error(KERF_INVALID_ARGUMENT, cat("input \"", t.name, "\" has ", bytes,
                                           " bytes, expected ", expected));
  static const char nothing = 0;
  state->io.inputs[index] = data ? static_cast<const char *>(data) : &nothing;
}

template <typename Visit>
void Session::forEachPart(int64_t index, size_t bytes, Visit &&visit) const {
  const Manifest &m = state->package->manifest;
  if (index < 0 || index >= static_cast<int64_t>(m.parameters.size()))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("parameter ", index, " of ", m.parameters.size()));
  const Parameter &p = m.parameters[index];
  if (!p.isMutable)
    throw Error(KERF_INVALID_ARGUMENT,
                "parameter \"" + p.name + "\" is not mutable");
  if (bytes != static_cast<size_t>(numBytes(p.globalShape, p.dtype)))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("parameter \"", p.name, "\" has ",
                    numBytes(p.globalShape, p.dtype), " bytes, not ", bytes));
  if (broken)
    throw Error(KERF_INVALID_ARGUMENT, "the session has failed before");
  for (int64_t rank = 0; rank < m.mesh.numRanks(); ++rank)
    if (void *local = state->ranks[rank]->parameter(index))
      visit(rank, partOf(m.mesh, p.sharding, p.globalShape, rank, 0),
            static_cast<char *>(local));
}

void Session::getParameter(int64_t index, void *data, size_t bytes) const {
  std::map<Shape, int64_t> holders; // by the part's start: the first rank
  forEachPart(index, bytes, [&](int64_t rank, const Part &part, char *local) {
    const Parameter &p = state->package->manifest.parameters[index];
    BoxCopy copy =
        makeBoxCopy(p.localShape, Shape(part.starts.size(), 0), p.globalShape,
                    part.starts, part.sizes, dtypeSize(p.dtype));
    auto [first, added] = holders.insert({part.starts, rank});
    if (added) {
      copy.run(local, data);
      return;
    }
    bool equal = true;
    copy.forEachRun([&](int64_t from, int64_t to) {
      equal = equal &&
              std::memcmp(local + from, static_cast<const char *>(data) + to,
                          static_cast<size_t>(copy.runBytes)) == 0;
    });
    if (!equal)
      throw Error(KERF_MISMATCH,
                  cat("ranks ", first->second, " and ", rank,
                      " hold different values of parameter \"", p.name, "\""));
  });
}

void Session::setParameter(int64_t index, const void *data, size_t bytes) {
  forEachPart(index, bytes, [&](int64_t rank, const Part &part, char *local) {
    const Parameter &p = state->package->manifest.parameters[index];
    makeBoxCopy(p.globalShape, part.starts, p.localShape,
                Shape(part.starts.size(), 0), part.sizes, dtypeSize(p.dtype))
        .run(data, local);
  });
}

std::pair<const void *, size_t> Session::output(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(state->outputs.size()))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("output ", index, " of ", state->outputs.size()));
  if (broken || steps.empty())
    throw Error(KERF_INVALID_ARGUMENT, "no step has run");
  return {state->outputs[index]->data,
          static_cast<size_t>(state->outputs[index]->bytes)};
}
