//===- Session.cpp - ranks of a package, run step by step -----------------===//
//
// Generation 0 is loading, every step is one more. The session's own wait has a
// deadline, too: once some rank has ended its list, the others must complete
// each instruction within the deadline. After a failure ranks get a moment to
// return, then the failure is reported without them.
//
//===----------------------------------------------------------------------===//
#include "Session.h"

#include "../base/Seconds.h"
#include "../comm/nccl/NcclWorld.h"
#include "../comm/processes/ProcessWorld.h"
#include "../comm/processes/Reports.h"
#include "kerf/Format/HostCores.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <unistd.h>

using namespace kerf::rt;

static int64_t maxSends(const Manifest &m) {
  int64_t max = 1;
  for (const StageDesc &stage : m.stages)
    for (size_t c = 0; c < m.channels.size(); ++c)
      max = std::max<int64_t>(
          max,
          std::count_if(stage.instructions.begin(), stage.instructions.end(),
                        [&](const Instruction &i) {
                          return i.op == Instruction::Send &&
                                 i.index == static_cast<int64_t>(c);
                        }));
  return max;
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
  state->spec.maxSends = maxSends(m);
  if (options.injection && options.injection->rank >= ranks)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("fault for rank ", options.injection->rank, " of ", ranks));
  state->job = options.job;
  if (options.job) {
    link = std::make_unique<SessionLink>(options.job, package);
    options.job->setDeadline(options.deadlineSeconds);
    state->world =
        m.cuda.used ? makeWorld(*package, state->spec, options.job)
                    : std::make_unique<ProcessWorld>(options.job, state->spec);
    state->local = {options.job->rank()};
  } else {
    state->world = makeWorld(*package, state->spec);
    for (int64_t rank = 0; rank < ranks; ++rank)
      state->local.push_back(rank);
  }
  const HostCores &cores = hostCores();
  int64_t share = std::max<int64_t>(cores.usable / ranks, 1);
  if (options.job) {
    int64_t onHost = options.job->environment().localSize;
    share = cores.share(onHost > 0 ? onHost : ranks);
  }
  state->threads =
      options.threads > 0 ? options.threads : static_cast<int32_t>(share);
  state->fillsHost =
      !options.job && !m.cuda.used && ranks * state->threads == cores.allowed;
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
  try {
    load();
  } catch (const Error &error) {
    if (state->job && error.code != KERF_CLOSED)
      state->job->fail(error);
    shutDown();
    throw;
  } catch (...) {
    shutDown();
    throw;
  }
  state->store.release();
  loadTime = secondsSince(begin);
}

void Session::load() {
  setPhase(ProcessNote::Loading);
  for (int64_t rank : state->local)
    workers.emplace_back(rankThread, state, rank);
  std::unique_lock<std::mutex> lock(state->mutex);
  state->changed.wait(lock, [&] {
    return state->done == static_cast<int64_t>(state->local.size());
  });
  lock.unlock();
  if (state->world->failed())
    throw state->world->failure();
  if (link)
    link->agree();
  setPhase(ProcessNote::Resting);
}

void Session::setPhase(ProcessNote::Phase phase) const {
  if (!state->job)
    return;
  std::lock_guard<std::recursive_mutex> guard(state->job->mutex());
  state->job->note().phase = phase;
}

void Session::requireLead(const char *what) const {
  if (!leads())
    throw Error(KERF_INVALID_ARGUMENT,
                cat(what, " on rank ", link->rank(),
                    ", expected on rank 0, which leads the job"));
}

Session::~Session() {
  if (state->used)
    state->used->user = nullptr;
  if (link && !broken && !ended && !state->job->failed() &&
      !state->job->closed()) {
    try {
      if (link->leads())
        link->command({SessionLink::End, 0, 0});
      else if (serveUntilStep())
        state->job->fail(
            Error(KERF_MISMATCH, cat("rank ", link->rank(),
                                     " ended the session, rank 0 runs another "
                                     "step")));
    } catch (...) { // the job has failed: no rank waits any more
    }
  }
  shutDown();
}

void Session::shutDown() {
  // Messages under way when a job fails may still access buffers: these are
  // kept until the process ends, which is soon.
  if (state->job && state->job->failed())
    new std::shared_ptr<State>(state);
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
  // A rank with an injected death ends without being counted as done.
  bool died = false;
  auto attempt = [&](auto &&body) {
    try {
      body();
    } catch (const RankDied &) {
      if (state->job) // a process that dies takes everything with it
        ::kill(::getpid(), SIGKILL);
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
    if (state->fillsHost)
      bindCpuTeam(rank * state->threads, state->threads);
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
  std::vector<int64_t> last;
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
    if (state->job) { // ranks that hang are noticed by the others
      std::lock_guard<std::recursive_mutex> guard(state->job->mutex());
      state->job->note().progress = state->ranks[state->local[0]]->progress();
      continue;
    }
    std::vector<int64_t> progress;
    for (auto &rank : state->ranks)
      progress.push_back(rank->progress());
    if (progress != last || state->done == 0)
      lastChange = SteadyClock::now();
    last = progress;
    // The ranks' own deadlines come first, since their messages say more.
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
  if (link && link->leads()) {
    link->command({SessionLink::Step, 0, 0});
  } else if (link) {
    if (!serveUntilStep()) {
      ended = true;
      throw Error(KERF_CLOSED, "rank 0 has ended the session");
    }
    begin = SteadyClock::now();
  }
  setPhase(ProcessNote::Stepping);
  runGeneration();
  steps.push_back(secondsSince(begin));
  if (link) {
    endJobStep();
    setPhase(ProcessNote::Resting);
  } else {
    std::vector<const CommCounters *> counters;
    for (auto &rank : state->ranks)
      counters.push_back(&rank->counters());
    checkBytes(state->spec, counters);
  }
  trimOutputs();
  broken = false;
}

Shape Session::boundedShape(const GlobalTensor &tensor) const {
  Shape shape = tensor.globalShape;
  for (const GlobalTensor::Bound &bound : tensor.bounded) {
    int64_t length;
    std::memcpy(&length, state->outputs[bound.length]->data, sizeof(length));
    if (length < 0 || length > shape[bound.dim])
      throw Error(KERF_INTERNAL,
                  cat("output ", tensor.name, " has length ", length,
                      ", expected at most ", shape[bound.dim]));
    shape[bound.dim] = length;
  }
  return shape;
}

void Session::trimOutputs() {
  const Manifest &m = state->package->manifest;
  for (size_t i = 0; i < m.outputs.size(); ++i) {
    const GlobalTensor &tensor = m.outputs[i];
    if (tensor.bounded.empty() ||
        (!leads() && state->outputs[i]->bytes > SessionLink::smallBytes))
      continue;
    Shape shape = boundedShape(tensor), origin(shape.size(), 0);
    std::vector<char> dense(static_cast<size_t>(numBytes(shape, tensor.dtype)));
    if (dense.empty())
      continue;
    makeBoxCopy(tensor.globalShape, origin, shape, origin, shape,
                dtypeSize(tensor.dtype))
        .run(state->outputs[i]->data, dense.data());
    std::memcpy(state->outputs[i]->data, dense.data(), dense.size());
  }
}

void Session::endJobStep() {
  const Rank &own = *state->ranks[link->rank()];
  link->gatherOutputs(state->io.outputs);
  std::vector<std::string> packed =
      state->job->gather(packCounters(own.counters()), "end its step");
  if (link->leads()) {
    std::vector<CommCounters> all;
    std::vector<const CommCounters *> counters;
    for (const std::string &text : packed)
      all.push_back(unpackCounters(text, state->spec));
    for (const CommCounters &each : all)
      counters.push_back(&each);
    try {
      checkBytes(state->spec, counters);
    } catch (const Error &error) {
      state->job->fail(error);
      throw;
    }
  }
  link->shareSmall(state->io.outputs);
}

SessionLink::Command Session::serveUntil() {
  for (;;) {
    SessionLink::Command command = link->next();
    if (command.kind == SessionLink::Step ||
        command.kind == SessionLink::Share || command.kind == SessionLink::End)
      return command;
    serve(command);
  }
}

bool Session::serveUntilStep() {
  SessionLink::Command command = serveUntil();
  if (command.kind == SessionLink::Share)
    throw Error(KERF_MISMATCH,
                cat("rank 0 shares ", command.index, " bytes, rank ",
                    link->rank(), " waits for its next step"));
  return command.kind == SessionLink::Step;
}

void Session::share(void *data, size_t bytes) {
  if (!link)
    return;
  if (link->leads()) {
    link->command({SessionLink::Share, 0, static_cast<int64_t>(bytes)});
  } else {
    SessionLink::Command command = serveUntil();
    if (command.kind == SessionLink::End) {
      ended = true;
      throw Error(KERF_CLOSED, "rank 0 has ended the session");
    }
    if (command.kind != SessionLink::Share ||
        command.index != static_cast<int64_t>(bytes)) {
      Error error(KERF_MISMATCH,
                  cat("rank ", link->rank(), " expects ", bytes,
                      " bytes of rank 0 between two steps, which does "
                      "something else"));
      state->job->fail(error);
      throw error;
    }
  }
  state->job->broadcast(data, bytes);
}

void Session::serve(const SessionLink::Command &command) {
  const Rank &own = *state->ranks[link->rank()];
  const auto &parameters = state->package->manifest.parameters;
  if (command.kind == SessionLink::Report) {
    state->job->gather(packReport(reportOf(own, command.flag != 0)),
                       "give its statistics");
    return;
  }
  if (command.index < 0 ||
      command.index >= static_cast<int64_t>(parameters.size()))
    throw Error(KERF_MISMATCH,
                "rank 0 asks for a parameter of another package");
  void *local = own.parameter(command.index);
  if (!local)
    return;
  bool gives = command.kind == SessionLink::GetParameter;
  std::vector<char> staging; // of memory that the host cannot touch
  if (!own.onHost()) {
    const Parameter &p = parameters[command.index];
    staging.resize(static_cast<size_t>(numBytes(p.localShape, p.dtype)));
    local = staging.data();
    if (gives)
      own.readParameter(command.index, local);
  }
  if (gives)
    link->sendPart(0, command.index, static_cast<char *>(local));
  else
    link->receivePart(0, command.index, static_cast<char *>(local));
  if (!gives && !own.onHost())
    state->ranks[link->rank()]->writeParameter(command.index, local);
}

std::vector<RankReport> Session::reports(bool withTrace) const {
  requireLead("statistics are asked for");
  std::vector<RankReport> all;
  if (!link) {
    for (auto &rank : state->ranks)
      all.push_back(reportOf(*rank, withTrace));
    return all;
  }
  link->command({SessionLink::Report, withTrace, 0});
  for (const std::string &text :
       state->job->gather(packReport(reportOf(*state->ranks[0], withTrace)),
                          "give its statistics"))
    all.push_back(unpackReport(text, state->spec));
  return all;
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
void Session::forEachHolder(int64_t index, size_t bytes, Visit &&visit) const {
  requireLead("a parameter is asked for");
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
  for (int64_t rank = 0; rank < m.mesh.numRanks(); ++rank) {
    Rank *own = state->ranks[rank].get();
    bool holds = own ? own->parameter(index) != nullptr
                     : p.heldBy(m.mesh.stageOf(rank)) && !p.libraryOnly;
    if (holds)
      visit(rank, partOf(m.mesh, p.sharding, p.globalShape, rank, 0), own);
  }
}

void Session::getParameter(int64_t index, void *data, size_t bytes) const {
  std::map<Shape, int64_t> holders; // by the part's start: the first rank
  std::vector<char> staging;
  bool asked = false;
  forEachHolder(index, bytes, [&](int64_t rank, const Part &part, Rank *own) {
    const Parameter &p = state->package->manifest.parameters[index];
    if (link && !asked)
      link->command({SessionLink::GetParameter, 0, index});
    asked = true;
    const char *local = nullptr;
    if (own && own->onHost()) {
      local = static_cast<const char *>(own->parameter(index));
    } else {
      staging.resize(static_cast<size_t>(numBytes(p.localShape, p.dtype)));
      if (own)
        own->readParameter(index, staging.data());
      else
        link->receivePart(rank, index, staging.data());
      local = staging.data();
    }
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
  std::vector<char> staging;
  bool asked = false;
  forEachHolder(index, bytes, [&](int64_t rank, const Part &part, Rank *own) {
    const Parameter &p = state->package->manifest.parameters[index];
    if (link && !asked)
      link->command({SessionLink::SetParameter, 0, index});
    asked = true;
    bool direct = own && own->onHost();
    if (!direct) // elements past the tensor's end are zero
      staging.assign(static_cast<size_t>(numBytes(p.localShape, p.dtype)), 0);
    makeBoxCopy(p.globalShape, part.starts, p.localShape,
                Shape(part.starts.size(), 0), part.sizes, dtypeSize(p.dtype))
        .run(data, direct ? own->parameter(index) : staging.data());
    if (!own)
      link->sendPart(rank, index, staging.data());
    else if (!direct)
      own->writeParameter(index, staging.data());
  });
}

int64_t Session::outputNumber(int64_t index) const {
  std::vector<int64_t> numbers = modelOutputs(state->package->manifest);
  if (index < 0 || index >= static_cast<int64_t>(numbers.size()))
    throw Error(KERF_INVALID_ARGUMENT,
                cat("output ", index, " of ", numbers.size()));
  if (broken || steps.empty())
    throw Error(KERF_INVALID_ARGUMENT, "no step has run");
  int64_t number = numbers[index];
  if (state->outputs[number]->bytes > SessionLink::smallBytes)
    requireLead("an output is asked for");
  return number;
}

std::pair<const void *, size_t> Session::output(int64_t index) const {
  int64_t number = outputNumber(index);
  const GlobalTensor &tensor = state->package->manifest.outputs[number];
  return {state->outputs[number]->data,
          static_cast<size_t>(numBytes(boundedShape(tensor), tensor.dtype))};
}

Shape Session::outputShape(int64_t index) const {
  return boundedShape(state->package->manifest.outputs[outputNumber(index)]);
}
