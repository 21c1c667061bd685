//===- Engine.cpp - streams and events, executed lazily on the host -------===//
#include "Engine.h"

#include "device/cuda/driver/DriverApi.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

using namespace recording;
namespace cu = kerf::rt::cu;

Engine &Engine::get() {
  static Engine *engine = [] { // outlives everything that may still call it
    auto *made = new Engine;
    if (const char *given = std::getenv("KERF_RECORDING"))
      made->configure(given);
    return made;
  }();
  return *engine;
}

namespace {
/// A host thread is a lane, too.
struct HostThread {
  int lane = -1;
  VectorClock clock;
};
thread_local HostThread host;
} // namespace

void Engine::configure(const std::string &text) {
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ';');) {
    size_t eq = part.find('=');
    std::string key = part.substr(0, eq),
                value = eq == std::string::npos ? "" : part.substr(eq + 1);
    auto number = [&] { return std::strtoll(value.c_str(), nullptr, 10); };
    if (key == "seed") {
      settings.seed = static_cast<uint64_t>(number());
      random.seed(settings.seed);
    } else if (key == "devices") {
      settings.devices = static_cast<int>(number());
    } else if (key == "arch") {
      settings.arch = static_cast<int>(number());
    } else if (key == "driver_version") {
      settings.driverVersion = static_cast<int>(number());
    } else if (key == "memory") {
      settings.memory = number();
    } else if (key == "names") {
      settings.names.clear();
      std::istringstream list(value);
      for (std::string name; std::getline(list, name, ',');)
        settings.names.push_back(name);
    } else if (key == "refuse_cubin") {
      settings.refuseCubin = number();
    } else if (key == "refuse_ptx") {
      settings.refusePtx = number();
    } else if (key == "no_capture") {
      settings.noCapture = number();
    } else if (key == "fail_capture") {
      settings.failCapture = number();
    } else if (key == "capture_device") {
      settings.captureDevice = static_cast<int>(number());
    } else if (key == "check") {
      settings.check = number();
    } else if (key == "algorithms") {
      settings.algorithms = static_cast<int>(number());
    } else if (key == "refuse_epilogue") {
      settings.refuseEpilogue = static_cast<int>(number());
    } else if (key == "slow_epilogue") {
      std::sscanf(value.c_str(), "%d:%d", &settings.slowEpilogue,
                  &settings.slowDevice);
    } else if (key == "refuse_window") {
      settings.refuseWindow = static_cast<int>(number());
    } else if (key == "nccl_error_rank") {
      settings.ncclErrorRank = static_cast<int>(number());
    } else if (key == "max_pitch") {
      settings.maxPitch = static_cast<int>(number());
    } else if (key == "nccl_version") {
      settings.ncclVersion = static_cast<int>(number());
    } else if (key == "refuse_count") {
      settings.refuseCount = number();
    } else if (key == "drop") { // wait:DEVICE:INDEX
      settings.dropKind = value.substr(0, value.find(':'));
      std::sscanf(value.c_str() + settings.dropKind.size(), ":%d:%d",
                  &settings.dropDevice, &settings.dropIndex);
    } else {
      problem("unknown setting " + key);
    }
  }
}

void Engine::reset() {
  settings = Settings();
  random.seed(settings.seed);
  races.clear();
  problems.clear();
  numProblems = 0;
  dropCounts.clear();
  ready.clear();
  for (Stream *stream : streams)
    stream->log.clear();
  lines.clear();
  resetNccl();
}

void Engine::problem(const std::string &text) {
  if (++numProblems <= 4)
    problems += (problems.empty() ? "" : "; ") + text;
  if (std::getenv("KERF_RECORDING_LOUD")) // for what comes too late to be asked
    std::fprintf(stderr, "recording: %s\n", text.c_str());
  changed.notify_all();
}

int Engine::newLane(const std::string &name) {
  laneTimes.push_back(0);
  laneNames.push_back(name);
  return static_cast<int>(laneTimes.size()) - 1;
}

void Engine::log(Stream &stream, const std::string &line) {
  stream.log.push_back(line);
}

bool Engine::dropped(const char *kind, const Stream &stream) {
  int index = dropCounts[{kind, stream.device}]++;
  return settings.dropKind == kind && settings.dropDevice == stream.device &&
         settings.dropIndex == index;
}

static void ensureHost(Engine &engine) {
  if (host.lane < 0)
    host.lane = engine.newLane("host");
}

OperationRef Engine::make(std::shared_ptr<const Work> work, int lane,
                          Stream &stream,
                          const std::vector<OperationRef> &after) {
  ensureHost(*this);
  auto op = std::make_shared<Operation>();
  op->work = std::move(work);
  op->lane = lane;
  op->stream = &stream;
  op->calls = op->work->calls;
  // It comes after all that this thread did so far.
  host.clock.resize(std::max<size_t>(host.clock.size(), host.lane + 1));
  host.clock[host.lane] = ++laneTimes[host.lane];
  join(op->clock, host.clock);
  for (const OperationRef &other : after) {
    if (!other)
      continue;
    if (other->done) {
      join(op->clock, other->clock);
    } else {
      other->dependents.push_back(op);
      ++op->pending;
    }
  }
  numberCalls(op);
  if (op->pending == 0)
    ready.push_back(op);
  changed.notify_all();
  return op;
}

int Engine::addNode(Graph &graph, std::shared_ptr<const Work> work,
                    Stream &stream, std::vector<int> after) {
  auto [lane, added] = graph.lanes.insert({&stream, 0});
  if (added)
    lane->second = newLane(stream.name + " in graph");
  graph.nodes.push_back({std::move(work), lane->second, std::move(after)});
  int node = static_cast<int>(graph.nodes.size()) - 1;
  graph.tails[&stream] = node;
  return node;
}

void Engine::enqueue(Stream &stream, std::shared_ptr<const Work> work) {
  log(stream, work->what);
  if (stream.capture) {
    std::vector<int> after;
    auto tail = stream.capture->tails.find(&stream);
    if (tail != stream.capture->tails.end() && tail->second >= 0)
      after.push_back(tail->second);
    addNode(*stream.capture, std::move(work), stream, after);
    return;
  }
  stream.tail = make(std::move(work), stream.lane, stream, {stream.tail});
}

void Engine::record(Event &event, Stream &stream) {
  event.label = stream.name + " #" + std::to_string(stream.log.size());
  event.capture = stream.capture;
  event.operation = nullptr;
  event.node = -1;
  if (stream.capture) {
    auto tail = stream.capture->tails.find(&stream);
    event.node = tail == stream.capture->tails.end() ? -1 : tail->second;
  } else {
    event.operation = stream.tail;
  }
}

static std::shared_ptr<const Work> emptyWork(const char *what) {
  auto work = std::make_shared<Work>();
  work->what = what;
  return work;
}

int Engine::wait(Stream &stream, Event &event) {
  log(stream, "wait " + event.label);
  if (!event.capture && !event.operation)
    return cu::Success; // never recorded, or nothing was there
  if (event.capture) {
    if (stream.capture && stream.capture != event.capture)
      return cu::ErrorStreamCaptureIsolation;
    Graph &graph = *event.capture;
    std::vector<int> after;
    if (event.node >= 0)
      after.push_back(event.node);
    auto tail = graph.tails.find(&stream);
    if (stream.capture && tail != graph.tails.end() && tail->second >= 0)
      after.push_back(tail->second);
    stream.capture = event.capture;
    addNode(graph, emptyWork("wait"), stream, after);
    return cu::Success;
  }
  if (stream.capture)
    return event.operation->done ? cu::Success
                                 : cu::ErrorStreamCaptureIsolation;
  stream.tail = make(emptyWork("wait"), stream.lane, stream,
                     {stream.tail, event.operation});
  return cu::Success;
}

int Engine::beginCapture(Stream &stream) {
  if (stream.capture)
    return cu::ErrorInvalidValue;
  if (settings.noCapture && mayFailCapture(stream))
    return cu::ErrorStreamCaptureUnsupported;
  log(stream, "begin capture");
  stream.capture = std::make_shared<Graph>();
  stream.capture->tails[&stream] = -1;
  return cu::Success;
}

int Engine::endCapture(Stream &stream, std::shared_ptr<Graph> &result) {
  std::shared_ptr<Graph> graph = stream.capture;
  if (!graph)
    return cu::ErrorInvalidValue;
  log(stream, "end capture");
  // Everything that was captured must come before the end.
  std::vector<bool> reached(graph->nodes.size());
  std::vector<int> open;
  if (graph->tails[&stream] >= 0)
    open.push_back(graph->tails[&stream]);
  while (!open.empty()) {
    int node = open.back();
    open.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    for (int other : graph->nodes[node].after)
      open.push_back(other);
  }
  int status = settings.failCapture && mayFailCapture(stream)
                   ? cu::ErrorStreamCaptureUnjoined
                   : cu::Success;
  for (auto &[other, tail] : graph->tails) {
    other->capture = nullptr;
    if (tail >= 0 && !reached[tail])
      status = cu::ErrorStreamCaptureUnjoined;
  }
  if (status == cu::Success)
    result = graph;
  return status;
}

bool Engine::isCaptured(const NcclRank &comm, bool uploaded) const {
  auto has = [&](const Graph &graph) {
    for (const Graph::Node &node : graph.nodes)
      for (const NcclCall &call : node.work->calls)
        if (call.comm == &comm)
          return true;
    return false;
  };
  for (const std::shared_ptr<Graph> *graph : graphs)
    if ((!uploaded || (*graph)->uploaded) && has(**graph))
      return true;
  for (const Stream *stream : streams)
    if (!uploaded && stream->capture && has(*stream->capture))
      return true;
  return false;
}

void Engine::launch(const std::shared_ptr<Graph> &graph, Stream &stream) {
  log(stream, "launch graph of " + std::to_string(graph->nodes.size()));
  std::vector<OperationRef> made;
  std::vector<bool> hasDependent(graph->nodes.size());
  for (const Graph::Node &node : graph->nodes) {
    std::vector<OperationRef> after;
    for (int other : node.after) {
      after.push_back(made[other]);
      hasDependent[other] = true;
    }
    if (after.empty())
      after = {stream.tail, graph->last};
    made.push_back(make(node.work, node.lane, stream, after));
  }
  std::vector<OperationRef> last = {stream.tail};
  for (size_t i = 0; i < made.size(); ++i)
    if (!hasDependent[i])
      last.push_back(made[i]);
  stream.tail = make(emptyWork("end of graph"), stream.lane, stream, last);
  graph->last = stream.tail;
}

void Engine::check(const Operation &op) {
  if (!settings.check)
    return;
  std::string name = laneNames[op.lane] + ": " + op.work->what;
  for (const Range &range : op.work->ranges) {
    if (range.begin >= range.end)
      continue;
    auto block = blocks.upper_bound(range.begin);
    if (block == blocks.begin() || (--block)->second < range.end)
      problem(name + " touches memory that is not allocated");
    std::string conflict = races.access(range, op.lane, op.clock, name);
    if (!conflict.empty())
      problem("race: " + name + " " + conflict + ", and nothing orders them");
  }
}

void Engine::finish(const std::vector<OperationRef> &all) {
  VectorClock joint;
  for (const OperationRef &op : all)
    join(joint, op->clock);
  for (const OperationRef &op : all) {
    op->clock = joint;
    op->clock.resize(std::max<size_t>(op->clock.size(), op->lane + 1));
    op->clock[op->lane] = ++laneTimes[op->lane];
    if (!op->cancelled)
      check(*op);
  }
  // Members of a collective know nothing of each other's lanes but the past.
  if (all.size() > 1 || !all[0]->calls.empty())
    exchange(all);
  for (const OperationRef &op : all) {
    int64_t begin = nanoseconds();
    if (!op->cancelled && op->work->run)
      op->work->run();
    if (!op->cancelled)
      noteActivity(*op, begin, nanoseconds());
    op->done = true;
    ready.erase(std::find(ready.begin(), ready.end(), op));
    for (const OperationRef &next : op->dependents) {
      join(next->clock, op->clock);
      if (--next->pending == 0)
        ready.push_back(next);
    }
    op->dependents.clear();
    op->work = nullptr;
  }
  changed.notify_all();
}

bool Engine::runOne() {
  std::vector<OperationRef> order = ready;
  std::shuffle(order.begin(), order.end(), random);
  for (const OperationRef &op : order) {
    std::vector<OperationRef> all{op};
    if (!op->calls.empty() && !op->cancelled && !collect(op, all))
      continue;
    finish(all);
    return true;
  }
  return false;
}

bool Engine::joinHost(const OperationRef &operation) {
  if (operation && !operation->done)
    return false;
  if (operation) {
    ensureHost(*this);
    join(host.clock, operation->clock);
  }
  return true;
}

void Engine::hostAccess(const Range &range) {
  if (!settings.check)
    return;
  ensureHost(*this);
  host.clock.resize(std::max<size_t>(host.clock.size(), host.lane + 1));
  host.clock[host.lane] = ++laneTimes[host.lane];
  std::string conflict = races.access(range, host.lane, host.clock, "the host");
  if (!conflict.empty())
    problem("race: the host " + conflict + ", and nothing orders them");
}

void Engine::destroyStream(Stream &stream) {
  stream.destroyed = true;
  // What was never asked for is not run.
  std::vector<OperationRef> open;
  for (const OperationRef &op : ready)
    open.push_back(op);
  std::set<Operation *> seen;
  while (!open.empty()) {
    OperationRef op = open.back();
    open.pop_back();
    if (!seen.insert(op.get()).second)
      continue;
    if (op->stream == &stream)
      op->cancelled = true;
    for (const OperationRef &next : op->dependents)
      open.push_back(next);
  }
}
