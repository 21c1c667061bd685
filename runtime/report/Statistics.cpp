//===- Statistics.cpp - run.json and Chrome traces of a session -----------===//
//
// Bytes are per step. A rank's bytes are its share of each collective that it
// takes part in plus what it sends; bytes_per_rank is the largest such sum, and
// by_axis and by_purpose are the shares of that rank. Sums are exact and
// rounded up once, so they equal those of plan.json however collectives were
// combined.
//
//===----------------------------------------------------------------------===//
#include "Statistics.h"

#include "kerf/Format/Schemas.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using namespace kerf::rt;
using nlohmann::ordered_json;

namespace {

/// "tp", or "tp:(1)2" for a sub-axis.
std::vector<std::string> axisNames(const Mesh &mesh, const AxisList &axes) {
  std::vector<std::string> names;
  for (const AxisRef &ref : axes) {
    const Mesh::Axis &axis = mesh.axes[ref.axis];
    names.push_back(axis.name);
    if (ref.size != axis.size)
      names.back() +=
          cat(":(", axis.size / (ref.weight * ref.size), ")", ref.size);
  }
  return names;
}

std::string axesName(const Mesh &mesh, const AxisList &axes) {
  std::string name;
  for (const std::string &part : axisNames(mesh, axes))
    name += name.empty() ? part : "+" + part;
  return name;
}

/// A rank's part of `group` bytes, in 1/numRanks of a byte: an integer.
__int128 shareOf(const CollectiveDesc &desc, int64_t n, int64_t group,
                 int64_t numRanks) {
  if (isUneven(desc.kind) || n <= 1)
    return static_cast<__int128>(bytesPerRank(desc, n)) * numRanks;
  return static_cast<__int128>(group) * (numRanks / n);
}

int64_t roundUp(__int128 shares, int64_t numRanks) {
  return static_cast<int64_t>((shares + numRanks - 1) / numRanks);
}

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t mid = values.size() / 2;
  return values.size() % 2 ? values[mid] : (values[mid - 1] + values[mid]) / 2;
}

/// Steps over which the seconds of a rank's counters are summed.
int64_t timedSteps(const RankReport &report, int64_t runs) {
  return report.timedSteps > 0 ? report.timedSteps : runs;
}

/// What one rank sends in a step.
struct RankBytes {
  int64_t counted = 0, planned = 0;
  std::map<std::string, int64_t> byAxis, byPurpose;
  double seconds = 0; ///< in communication
};

RankBytes bytesOf(const Session &session, const RankReport &report,
                  int64_t runs) {
  const WorldSpec &spec = session.spec();
  const CommCounters &counters = report.counters;
  RankBytes result;
  int64_t ranks = spec.mesh.numRanks();
  __int128 counted = 0, planned = 0;
  std::map<std::string, __int128> byAxis, byPurpose;
  auto add = [&](const std::string &axis, const std::string &purpose,
                 __int128 shares) {
    counted += shares;
    byAxis[axis] += shares;
    byPurpose[purpose] += shares;
  };
  for (size_t i = 0; i < spec.collectives.size(); ++i) {
    const CollectiveDesc &desc = spec.collectives[i];
    const CommCounters::Entry &entry = counters.collectives[i];
    int64_t n = Mesh::sizeOf(desc.axes), calls = entry.calls / runs;
    if (entry.calls != 0 && n > 1)
      add(axesName(spec.mesh, desc.axes), desc.purpose,
          shareOf(desc, n, groupBytes(desc, n), ranks) * calls);
    planned += shareOf(desc, n,
                       desc.plannedGroupBytes < 0 ? groupBytes(desc, n)
                                                  : desc.plannedGroupBytes,
                       ranks) *
               calls;
    result.seconds += entry.seconds;
  }
  std::string stageAxis =
      spec.mesh.stageAxis < 0 ? "" : spec.mesh.axes[spec.mesh.stageAxis].name;
  for (size_t i = 0; i < spec.channels.size(); ++i) {
    const CommCounters::Entry &sent = counters.sends[i];
    if (sent.calls != 0)
      add(stageAxis, spec.channels[i].purpose,
          static_cast<__int128>(sent.groupBytes / runs) * ranks);
    int64_t each = spec.channels[i].plannedBytes;
    planned +=
        static_cast<__int128>(each < 0 ? spec.channels[i].bytes() : each) *
        (sent.calls / runs) * ranks;
    result.seconds += sent.seconds + counters.receives[i].seconds;
  }
  result.counted = roundUp(counted, ranks);
  result.planned = roundUp(planned, ranks);
  for (const auto &[axis, shares] : byAxis)
    result.byAxis[axis] = roundUp(shares, ranks);
  for (const auto &[purpose, shares] : byPurpose)
    result.byPurpose[purpose] = roundUp(shares, ranks);
  result.seconds /= static_cast<double>(timedSteps(report, runs));
  return result;
}

/// One entry per collective that ran between several ranks, as in plan.json.
/// total_bytes is summed over groups; seconds are of one execution.
class CollectiveList {
public:
  CollectiveList(const Session &session, const std::vector<RankReport> &reports)
      : reports(reports), spec(session.spec()),
        runs(static_cast<int64_t>(session.stepSeconds().size())) {
    for (size_t i = 0; i < spec.collectives.size(); ++i)
      addCollective(i);
    for (size_t i = 0; i < spec.channels.size(); ++i)
      addChannel(i);
  }

  ordered_json list = ordered_json::array();
  int64_t totalBytes = 0;

private:
  /// What the ranks did, together: entry(rank) is one of its counters.
  struct Sum {
    int64_t calls = 0, callers = 0, stage = 0;
    double seconds = 0; ///< of one execution, on the slowest rank
  };
  template <typename Get> Sum sumOver(Get &&entry) const {
    Sum sum;
    for (int64_t r = spec.mesh.numRanks(); r-- > 0;) {
      const CommCounters::Entry &e = entry(reports[r].counters);
      if (e.calls == 0)
        continue;
      sum.calls = std::max(sum.calls, e.calls / runs);
      ++sum.callers;
      sum.stage = spec.mesh.stageOf(r);
      int64_t timed = e.calls / runs * timedSteps(reports[r], runs);
      sum.seconds = std::max(
          sum.seconds,
          e.seconds / static_cast<double>(std::max<int64_t>(timed, 1)));
    }
    return sum;
  }

  template <typename Desc>
  void add(const std::string &op, const Desc &desc,
           const std::vector<std::string> &axes, const Sum &sum, int64_t size,
           int64_t groups, int64_t buffer, int64_t group, int64_t perRank) {
    totalBytes += group * groups * sum.calls;
    list.push_back({{"op", op},
                    {"node", desc.node},
                    {"tensor", desc.tensor},
                    {"axes", axes},
                    {"stage", sum.stage},
                    {"group_size", size},
                    {"groups", groups},
                    {"buffer_bytes", buffer},
                    {"group_bytes", group},
                    {"bytes_per_rank", perRank},
                    {"count", sum.calls},
                    {"phase", desc.phase},
                    {"purpose", desc.purpose},
                    {"seconds", sum.seconds}});
  }

  void addCollective(size_t i) {
    const CollectiveDesc &desc = spec.collectives[i];
    int64_t n = Mesh::sizeOf(desc.axes);
    Sum sum =
        sumOver([&](const CommCounters &c) -> const CommCounters::Entry & {
          return c.collectives[i];
        });
    if (sum.calls != 0 && n > 1)
      add(std::string(collectiveName(desc.kind)), desc,
          axisNames(spec.mesh, desc.axes), sum, n, sum.callers / n,
          bufferBytes(desc, n), groupBytes(desc, n), bytesPerRank(desc, n));
  }

  void addChannel(size_t i) {
    const ChannelDesc &desc = spec.channels[i];
    Sum sum =
        sumOver([&](const CommCounters &c) -> const CommCounters::Entry & {
          return c.sends[i];
        });
    Sum received =
        sumOver([&](const CommCounters &c) -> const CommCounters::Entry & {
          return c.receives[i];
        });
    sum.seconds = received.seconds; // sends return at once
    if (sum.calls != 0)
      add("send", desc, {spec.mesh.axes[spec.mesh.stageAxis].name}, sum, 2,
          sum.callers, desc.bytes(), desc.bytes(), desc.bytes());
  }

  const std::vector<RankReport> &reports;
  const WorldSpec &spec;
  int64_t runs;
};

const char *opName(Instruction::Op op) {
  static constexpr const char *names[] = {"input", "run",    "send",
                                          "recv",  "output", "zero"};
  return names[op];
}

ordered_json rankJson(const Session &session, int64_t rank, const RankReport &r,
                      int64_t runs) {
  const auto &instructions =
      session.package().manifest.stages[r.stage].instructions;
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < instructions.size(); ++i)
    list.push_back({{"op", opName(instructions[i].op)},
                    {"index", instructions[i].index},
                    {"micro_batch", instructions[i].microBatch},
                    {"seconds", r.instructionSeconds[i] /
                                    static_cast<double>(timedSteps(r, runs))}});
  return {{"rank", rank}, {"stage", r.stage}, {"instructions", list}};
}

std::string eventName(const Manifest &m, const TraceEvent &event) {
  switch (event.kind) {
  case TraceEvent::Run:
    return m.functions[event.index].symbol;
  case TraceEvent::Input:
    return "input " + m.inputs[event.index].name;
  case TraceEvent::Output:
    return "output " + m.outputs[event.index].name;
  case TraceEvent::Send:
    return cat("send ", event.index);
  case TraceEvent::Recv:
    return cat("recv ", event.index);
  case TraceEvent::Launch:
    return event.index >= 0 &&
                   event.index < static_cast<int32_t>(m.kernels.size())
               ? m.kernels[event.index].name
               : "kernel";
  case TraceEvent::Library: {
    const LibraryDesc &desc = m.library[event.index];
    return cat(desc.kindName(), desc.node.empty() ? "" : " ", desc.node);
  }
  case TraceEvent::Collective: {
    const CollectiveDesc &desc = m.collectives[event.index];
    return cat(collectiveName(desc.kind), desc.node.empty() ? "" : " ",
               desc.node);
  }
  case TraceEvent::Copy:
    return "copy";
  }
  return "";
}
bool isTraining(const Manifest &m) {
  return std::any_of(m.parameters.begin(), m.parameters.end(),
                     [](const Parameter &p) { return p.isMutable; });
}

/// Seconds of each step on the device of the slowest rank; empty on hosts.
std::vector<double> slowestSteps(const std::vector<RankReport> &reports) {
  std::vector<double> slowest;
  for (const RankReport &report : reports) {
    slowest.resize(std::max(slowest.size(), report.deviceSeconds.size()));
    for (size_t i = 0; i < report.deviceSeconds.size(); ++i)
      slowest[i] = std::max(slowest[i], report.deviceSeconds[i]);
  }
  return slowest;
}

/// Which of the six steps of a training iteration an event belongs to (the
/// first, reading, is the loop's); nullptr if it spans several.
const char *stepName(const Manifest &m, const TraceEvent &event) {
  constexpr const char *copy = "2 copy to device", *forward = "3 forward",
                       *backward = "4 loss and backward",
                       *gradients = "5 synchronise gradients",
                       *update = "6 update";
  auto ofPhase = [&](const std::string &phase) {
    return phase == "backward" ? backward
           : phase == "update" ? update
                               : forward;
  };
  switch (event.kind) {
  case TraceEvent::Input:
    return copy;
  case TraceEvent::Run: {
    const std::string &symbol = m.functions[event.index].symbol;
    auto has = [&](const char *part) {
      return symbol.find(part) != std::string::npos;
    };
    if (has("_step") || has("_forward_backward"))
      return nullptr;
    return has("_backward") ? backward : has("_update") ? update : forward;
  }
  case TraceEvent::Collective: {
    const CollectiveDesc &desc = m.collectives[event.index];
    return desc.purpose == "gradient" ? gradients : ofPhase(desc.phase);
  }
  case TraceEvent::Send:
  case TraceEvent::Recv: {
    // Of a weight that two stages hold, its gradient crosses.
    const ChannelDesc &desc = m.channels[event.index];
    return desc.purpose == "gradient" ? gradients : ofPhase(desc.phase);
  }
  case TraceEvent::Launch:
    return event.index >= 0 &&
                   event.index < static_cast<int32_t>(m.kernels.size())
               ? ofPhase(m.kernels[event.index].phase)
               : nullptr;
  case TraceEvent::Library:
    return ofPhase(m.library[event.index].phase);
  default:
    return nullptr;
  }
}

/// What GPUs did: to a viewer a process of their own, a line per stream.
constexpr int deviceProcess = 1;

ordered_json named(const char *what, int process, int64_t line,
                   const std::string &name) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", process},
          {"tid", line},
          {"args", {{"name", name}}}};
}

ordered_json spanJson(const Manifest &m, const DeviceSpan &span, int64_t line,
                      int64_t start, bool training) {
  static constexpr const char *kinds[] = {"kernel", "copy", "fill"};
  ordered_json event = {
      {"name", span.name},
      {"cat", kinds[span.kind]},
      {"ph", "X"},
      {"pid", deviceProcess},
      {"tid", line},
      {"ts", static_cast<double>(span.beginNs - start) * 1e-3},
      {"dur", static_cast<double>(span.endNs - span.beginNs) * 1e-3},
      {"args", ordered_json::object()}};
  if (span.kernel < 0 || span.kernel >= static_cast<int32_t>(m.kernels.size()))
    return event;
  const KernelEntry &kernel = m.kernels[span.kernel];
  event["name"] = kernel.name;
  event["args"] = {{"index", span.kernel}, {"node", kernel.node}};
  TraceEvent launch{TraceEvent::Launch, span.kernel, 0, 0, 0};
  const char *step = training ? stepName(m, launch) : nullptr;
  if (step)
    event["args"]["step"] = step;
  return event;
}
} // namespace

std::string kerf::rt::statisticsJson(const Session &session) {
  const Manifest &m = session.package().manifest;
  int64_t ranks = m.mesh.numRanks();
  int64_t runs = static_cast<int64_t>(session.stepSeconds().size());
  ordered_json root = {{"schema", kerf::runSchema.text()},
                       {"model", {{"name", m.name}}},
                       {"devices", ranks}};
  ordered_json &sizes = root["model"]["input_shapes"] = ordered_json::object();
  for (const GlobalTensor &input : m.inputs)
    sizes[input.name] = input.globalShape;
  root["mesh"] = ordered_json::object();
  for (const Mesh::Axis &axis : m.mesh.axes)
    root["mesh"][axis.name] = axis.size;
  root["schedule"] = {{"micro_batches", m.mesh.numMicroBatches()}};
  root["threads_per_rank"] = session.threads();
  root["repeat"] = runs;
  if (runs == 0)
    return root.dump(1);

  std::vector<RankReport> reports = session.reports(false);
  RankBytes busiest;
  double computeSeconds = 0, communicationSeconds = 0;
  int64_t planned = 0;
  ordered_json perDevice = ordered_json::array(),
               perRank = ordered_json::array();
  for (int64_t r = 0; r < ranks; ++r) {
    RankBytes bytes = bytesOf(session, reports[r], runs);
    if (bytes.counted > busiest.counted || r == 0)
      busiest = bytes;
    planned = std::max(planned, bytes.planned);
    const RankReport &rank = reports[r];
    std::vector<double> compute, communication;
    for (const Rank::StepSplit &split : rank.splits) {
      compute.push_back(split.compute);
      communication.push_back(split.communication);
    }
    // Of one rank, so that the parts are no more than the step.
    if (double own = median(compute); own > computeSeconds || r == 0) {
      computeSeconds = own;
      communicationSeconds = median(communication);
    }
    int64_t workspace = rank.workspaceBytes;
    perDevice.push_back(
        {{"parameters", rank.parameterBytes},
         {"gradients", 0},
         {"optimizer", 0},
         {"activations", rank.arenaBytes},
         {"workspace", workspace},
         {"peak", rank.parameterBytes + rank.arenaBytes + workspace}});
    perRank.push_back(rankJson(session, r, rank, runs));
  }
  // Medians of steps need not add up: the wait of the median step is no more
  // than what compute leaves of it.
  double stepSeconds = median(session.stepSeconds());
  communicationSeconds = std::min(communicationSeconds,
                                  std::max(stepSeconds - computeSeconds, 0.0));
  CollectiveList collectives(session, reports);
  root["communication"] = {{"bytes_per_rank", busiest.counted},
                           {"planned_bytes_per_rank", planned},
                           {"total_bytes", collectives.totalBytes},
                           {"by_axis", busiest.byAxis},
                           {"by_purpose", busiest.byPurpose},
                           {"collectives", collectives.list}};
  root["memory"] = {{"per_device", perDevice}};
  for (const RankReport &report : reports)
    if (report.sharesDevice)
      root["shared_devices"] = true; // figures mean nothing but that it ran
  root["time"] = {{"step_seconds", stepSeconds},
                  {"step_seconds_all", session.stepSeconds()},
                  {"compute_seconds", computeSeconds},
                  {"exposed_communication_seconds", communicationSeconds},
                  {"load_seconds", session.loadSeconds()}};
  std::vector<double> device = slowestSteps(reports);
  if (!device.empty()) {
    root["time"]["device_seconds"] = median(device);
    root["time"]["device_seconds_all"] = device;
  }
  root["ranks"] = perRank;
  return root.dump(1);
}

std::string kerf::rt::traceJson(const Session &session) {
  static constexpr const char *categories[] = {
      "run",    "input",   "output",     "send", "recv",
      "launch", "library", "collective", "copy"};
  const Manifest &m = session.package().manifest;
  std::vector<RankReport> reports = session.reports(true);
  ordered_json events = ordered_json::array();
  bool training = isTraining(m);
  int64_t start = INT64_MAX;
  for (int64_t r = 0; r < m.mesh.numRanks(); ++r) {
    for (const TraceEvent &event : reports[r].trace)
      start = std::min(start, event.beginNs);
    for (const DeviceSpan &span : reports[r].spans)
      start = std::min(start, span.beginNs);
  }
  for (int64_t r = 0; r < m.mesh.numRanks(); ++r) {
    events.push_back(named("thread_name", 0, r, cat("rank ", r)));
    for (const TraceEvent &event : reports[r].trace) {
      events.push_back(
          {{"name", eventName(m, event)},
           {"cat", categories[event.kind]},
           {"ph", "X"},
           {"pid", 0},
           {"tid", r},
           {"ts", static_cast<double>(event.beginNs - start) * 1e-3},
           {"dur", static_cast<double>(event.endNs - event.beginNs) * 1e-3},
           {"args",
            {{"micro_batch", event.microBatch}, {"index", event.index}}}});
      const char *step = training ? stepName(m, event) : nullptr;
      if (step)
        events.back()["args"]["step"] = step;
    }
  }
  int64_t line = 0;
  for (int64_t r = 0; r < m.mesh.numRanks(); ++r) {
    std::map<uint32_t, int64_t> lines; // of streams
    for (const DeviceSpan &span : reports[r].spans) {
      auto [at, isNew] = lines.try_emplace(span.stream, line);
      if (isNew && line == 0)
        events.push_back(named("process_name", deviceProcess, 0, "GPUs"));
      if (isNew)
        events.push_back(named("thread_name", deviceProcess, line++,
                               cat("rank ", r, " stream ", span.stream)));
      events.push_back(spanJson(m, span, at->second, start, training));
    }
  }
  // The clock's reading at time 0, so that others can add events of their own.
  ordered_json trace = {{"traceEvents", events},
                        {"displayTimeUnit", "ms"},
                        {"startNanoseconds", start == INT64_MAX ? 0 : start}};
  int64_t dropped = 0;
  for (int64_t r = 0; r < m.mesh.numRanks(); ++r)
    dropped += reports[r].droppedEvents;
  if (dropped)
    trace["droppedEvents"] = dropped;
  return trace.dump();
}
