//===- Calibrate.cpp - kerf calibrate: this machine as numbers ------------===//
//
// Each class of op is timed on one rank by three samples: a tiny one, dominated
// by latency; one whose data stay in the cache, dominated by arithmetic; one
// far larger than the caches, dominated by memory. Those of arithmetic take a
// millisecond or two, less than a system lets a thread run at a time, so that
// on a busy machine most of them run undisturbed. The link is measured by an
// all-reduce of all ranks over a range of sizes. The result is a machine file
// (docs/CostModel.md) for --machine. A quick calibration takes the same figures
// from fewer and smaller samples.
//
//===----------------------------------------------------------------------===//
#include "Calibrate.h"
#include "../Commands.h"
#include "../Setup.h"
#include "../report/Report.h"
#include "Measure.h"

#include "kerf/rt/run.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace kerf;
using namespace kerf::tool;
using cost::ComputeClass;

namespace {

std::string function(const std::string &arguments, const std::string &results,
                     const std::string &body) {
  return "func.func @main(" + arguments + ") -> (" + results +
         " {kerf.name = \"y\"}) {\n" + body + "  return %y : " + results +
         "\n}\n";
}

std::string tensor(std::initializer_list<int64_t> shape,
                   const char *type = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

std::string argument(const char *name, const std::string &type) {
  return llvm::formatv("%{0}: {1} {{kerf.name = \"{0}\"}", name, type).str();
}

std::string weight(const std::string &type) {
  return "  %w = nn.weight \"w\" file 0 at 0 : " + type + "\n";
}

/// [m, k] times a weight [k, n], which is packed at load.
std::string matmul(int64_t m, int64_t k, int64_t n) {
  std::string x = tensor({m, k}), w = tensor({k, n}), y = tensor({m, n});
  return function(argument("x", x), y,
                  weight(w) + "  %y = nn.matmul %x, %w : (" + x + ", " + w +
                      ") -> " + y + "\n");
}

/// 3x3, as many channels out as in.
std::string convolution(int64_t size, int64_t channels) {
  std::string x = tensor({1, size, size, channels});
  std::string w = tensor({channels, channels, 3, 3});
  return function(argument("x", x), x,
                  weight(w) + "  %y = nn.conv %x, %w kernel 3x3 pad 1x1 : " +
                      x + " -> " + x + "\n");
}

/// A chain of `depth` times tanh, which becomes one kernel.
std::string tanhChain(int64_t elements, int depth) {
  std::string type = tensor({elements}), body, last = "x";
  for (int i = 0; i < depth; ++i) {
    std::string next = i + 1 == depth ? "y" : "t" + std::to_string(i);
    body += "  %" + next + " = nn.tanh %" + last + " : (" + type + ") -> " +
            type + "\n";
    last = next;
  }
  return function(argument("x", type), type, body);
}

std::string addition(int64_t elements) {
  std::string type = tensor({elements});
  return function(argument("x", type) + ", " + argument("z", type), type,
                  "  %y = nn.add %x, %z : (" + type + ", " + type + ") -> " +
                      type + "\n");
}

std::string softmax(int64_t rows, int64_t columns) {
  std::string type = tensor({rows, columns});
  return function(argument("x", type), type,
                  "  %y = nn.softmax %x dim 1 : (" + type + ") -> " + type +
                      "\n");
}

std::string gather(int64_t rows, int64_t columns, int64_t count) {
  std::string table = tensor({rows, columns}), ids = tensor({count}, "i64"),
              y = tensor({count, columns});
  return function(argument("ids", ids), y,
                  weight(table) + "  %y = nn.gather %w, %ids dim 0 : (" +
                      table + ", " + ids + ") -> " + y + "\n");
}

/// `elements` summed over all ranks, each of which holds a row of its own.
std::string allReduce(int64_t ranks, int64_t elements) {
  std::string x = tensor({ranks, elements}), y = tensor({elements});
  return llvm::formatv(R"(dist.mesh @mesh ["x"={0}]
func.func @main(%x: {1} {{kerf.name = "x", dist.sharding = #dist.sharding<{{"x"}, {{}>})
    -> ({2} {{kerf.name = "y", dist.sharding = #dist.sharding<{{}>}) {{
  %y = nn.reduce sum %x dims [0] {{dist.plan = #dist.plan<operands = [#dist.sharding<{{"x"}, {{}>],
    results = [#dist.sharding<{{}, partial sum {{"x"}>]>} : ({1}) -> {2}
  return %y : {2}
}
)",
                       ranks, x, y)
      .str();
}

/// A program in which all ranks add at once, each its own rows.
std::string parallelAddition(int64_t ranks, int64_t elements) {
  std::string type = tensor({ranks, elements});
  const char *sharding = "#dist.sharding<{\"x\"}, {}>";
  return llvm::formatv(
             R"(dist.mesh @mesh ["x"={0}]
func.func @main(%x: {1} {{kerf.name = "x", dist.sharding = {2}}, %z: {1} {{kerf.name = "z", dist.sharding = {2}})
    -> ({1} {{kerf.name = "y", dist.sharding = {2}}) {{
  %y = nn.add %x, %z {{dist.plan = #dist.plan<operands = [{2}, {2}], results = [{2}]>} : ({1}, {1}) -> {1}
  return %y : {1}
}
)",
             ranks, type, sharding)
      .str();
}

/// Rounded to four digits: no measurement is more precise.
double rounded(double value) {
  if (!(value > 0))
    return 0;
  double scale = std::pow(10.0, 3 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

class Calibration {
public:
  Calibration(cost::Machine machine, bool quick, bool silent)
      : machine(std::move(machine)), quick(quick), silent(silent) {}
  cost::Machine run();

private:
  /// Latency, arithmetic and memory of a class; no `memory`: as elementwise.
  void compute(ComputeClass kind, const char *name, const std::string &tiny,
               const std::string &arithmetic, const std::string &memory);
  void link();
  void say(const std::string &line) {
    if (!silent)
      llvm::errs() << line << "\n";
  }
  Measurement timed(const std::string &text, int64_t ranks = 1) {
    return quick ? measure(text, ranks, machine.threadsPerDevice, 0.02, 5)
                 : measure(text, ranks, machine.threadsPerDevice, 0.3, 10);
  }

  cost::Machine machine;
  bool quick, silent;
};

} // namespace

void Calibration::compute(ComputeClass kind, const char *name,
                          const std::string &tiny,
                          const std::string &arithmetic,
                          const std::string &memory) {
  cost::Throughput &rate = machine.throughput[static_cast<unsigned>(kind)];
  const cost::Throughput &plain =
      machine.throughput[static_cast<unsigned>(ComputeClass::Elementwise)];
  rate.latencySeconds = rounded(timed(tiny).computeSeconds);
  auto perSecond = [&](double amount, double seconds) {
    return rounded(amount /
                   std::max({seconds - rate.latencySeconds, 0.01 * seconds,
                             1e-9})); // finite, whatever the clock says
  };
  rate.flopsPerSecond = plain.flopsPerSecond;
  if (!arithmetic.empty()) {
    Measurement sample = timed(arithmetic);
    rate.flopsPerSecond = perSecond(sample.flops, sample.computeSeconds);
  }
  rate.bytesPerSecond = plain.bytesPerSecond;
  if (!memory.empty()) {
    Measurement sample = timed(memory);
    rate.bytesPerSecond = perSecond(sample.bytes, sample.computeSeconds);
  }
  say(llvm::formatv("{0,-12} {1,8:F1} GFLOP/s {2,8:F1} GB/s {3,8:F2} us a call",
                    name, rate.flopsPerSecond * 1e-9,
                    rate.bytesPerSecond * 1e-9, rate.latencySeconds * 1e6)
          .str());
}

void Calibration::link() {
  int64_t ranks = machine.devicesPerNode;
  if (ranks < 2)
    return;
  cost::Link &link = machine.local;
  link.allReduceCurve.clear();
  link.curveGroupSize = ranks;
  std::vector<int64_t> sizes = {int64_t(64), int64_t(64) << 10,
                                int64_t(1) << 20};
  if (!quick)
    sizes = {int64_t(64),      int64_t(64) << 10, int64_t(256) << 10,
             int64_t(1) << 20, int64_t(4) << 20,  int64_t(16) << 20,
             int64_t(64) << 20};
  // Memory for a row of each rank, twice, stays below 2 GiB. Two points at
  // least make a rate.
  for (int64_t bytes : sizes) {
    if (bytes * ranks > int64_t(1) << 29 && link.allReduceCurve.size() > 1)
      break;
    double seconds =
        rounded(timed(allReduce(ranks, bytes / 4), ranks).collectiveSeconds);
    // Noise must not make the curve fall.
    if (!link.allReduceCurve.empty())
      seconds = std::max(seconds, link.allReduceCurve.back().seconds);
    link.allReduceCurve.push_back(
        {link.allReduceCurve.empty() ? 0 : bytes, seconds});
    say(llvm::formatv("all-reduce   {0,10} {1,10:F1} us", formatBytes(bytes),
                      1e6 * seconds)
            .str());
  }
  double steps = 2 * (ranks - 1);
  link.latencySeconds = rounded(link.allReduceCurve.front().seconds / steps);
  const auto &last = link.allReduceCurve.back();
  // On a busy host the smallest may take as long as the largest.
  double moving = std::max({last.seconds - link.allReduceCurve.front().seconds,
                            0.01 * last.seconds, 1e-9});
  link.bytesPerSecond = rounded(2.0 * (ranks - 1) / ranks *
                                static_cast<double>(last.bufferBytes) / moving);

  const int64_t elements = int64_t(quick ? 2 : 4) << 20;
  double alone = timed(addition(elements)).computeSeconds;
  double together =
      timed(parallelAddition(ranks, elements), ranks).computeSeconds;
  // Each rank does the same work; slower together means that memory is shared.
  machine.ranksThatSaturateMemory =
      rounded(std::clamp(ranks * alone / together, 1.0, double(ranks)));
  say(llvm::formatv("the memory's bandwidth is used up by {0:F2} ranks",
                    machine.ranksThatSaturateMemory)
          .str());
}

cost::Machine Calibration::run() {
  if (quick) {
    compute(ComputeClass::Elementwise, "elementwise", addition(16),
            tanhChain(1 << 13, 8), addition(int64_t(2) << 20));
    compute(ComputeClass::Row, "row", softmax(1, 16), softmax(32, 512), "");
    compute(ComputeClass::Matmul, "matmul", matmul(1, 8, 8),
            matmul(128, 512, 512), matmul(1, 1024, 4096));
    compute(ComputeClass::Convolution, "convolution", convolution(4, 8),
            convolution(28, 32), "");
    compute(ComputeClass::Gather, "gather", gather(16, 16, 1), "", "");
    link();
    return machine;
  }
  compute(ComputeClass::Elementwise, "elementwise", addition(16),
          tanhChain(1 << 15, 16), addition(int64_t(8) << 20));
  compute(ComputeClass::Row, "row", softmax(1, 16), softmax(64, 1024),
          softmax(8192, 1024));
  compute(ComputeClass::Matmul, "matmul", matmul(1, 8, 8),
          matmul(256 * machine.threadsPerDevice, 768, 768),
          matmul(1, 2048, 8192));
  compute(ComputeClass::Convolution, "convolution", convolution(4, 8),
          convolution(56, 64), "");
  compute(ComputeClass::Gather, "gather", gather(16, 16, 1), "",
          gather(50000, 768, 8192));
  link();
  return machine;
}

cost::Machine kerf::tool::calibrateRanks(int64_t ranks, int64_t threads,
                                         bool quick, bool silent) {
  cost::HostInfo host = cost::thisHost();
  auto machine = cost::machinePreset("cpu", ranks, host);
  if (!machine)
    throw Failure{kUsage, llvm::toString(machine.takeError()), {}};
  if (threads > 0)
    machine->threadsPerDevice = threads;
  machine->name = "a calibrated CPU";
  machine->description = plural(ranks, "thread rank") + " of " +
                         plural(machine->threadsPerDevice, "thread") + " on " +
                         plural(host.cores, "core") + ", measured" +
                         (quick ? " quickly" : "");
  rt::preferShortSpins();
  return Calibration(std::move(*machine), quick, silent).run();
}

int kerf::tool::calibrate(const Options &options) {
  Devices devices = parseDevices(options.devices);
  if (devices.kind != "cpu")
    throw Failure{kUsage,
                  "--devices: calibration measures the ranks of this host, "
                  "expected cpu:N",
                  {}};
  std::string text = cost::writeMachine(calibrateRanks(
      devices.count, options.threads, /*quick=*/false, options.quiet));
  if (options.output.empty())
    llvm::outs() << text;
  else
    writeFile(options.output, text);
  llvm::outs().flush();
  return kFine;
}
