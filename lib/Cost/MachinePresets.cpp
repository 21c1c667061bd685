//===- MachinePresets.cpp - machines that have a name ---------------------===//
//
// docs/CostModel.md has the numbers and their sources. Throughputs are what
// good libraries reach, not data-sheet peaks: 70% of dense bf16 peak for GPU
// matrix products, 85% of memory bandwidth for the rest.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Machine.h"
#include "kerf/Format/ClosestName.h"
#include "kerf/Format/HostCores.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <unistd.h>

using namespace kerf::cost;

static constexpr double kGiga = 1e9, kTera = 1e12, kMicro = 1e-6;
static constexpr int64_t kMiB = int64_t(1) << 20;
static constexpr int64_t kGiB = int64_t(1) << 30;
/// Presets are never made larger than this: a larger mesh is a typo.
static constexpr int64_t kMaxDevices = 1 << 16;

static Throughput &rateOf(Machine &machine, ComputeClass kind) {
  return machine.throughput[static_cast<unsigned>(kind)];
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

namespace {
/// Peaks of products by type, as data sheets have them. bf16 and f16 are the
/// same; f32 is not rounded to TF32 (the runtime's default).
struct ProductFlops {
  double half, tf32, f32, f64;
};
} // namespace

static void setProducts(Throughput &rate, const ProductFlops &peak,
                        double share) {
  auto set = [&](ElementKind kind, double flops) {
    rate.typedFlopsPerSecond[static_cast<unsigned>(kind)] = share * flops;
  };
  set(ElementKind::F64, peak.f64);
  set(ElementKind::F32, peak.f32);
  set(ElementKind::TF32, peak.tf32);
  set(ElementKind::F16, peak.half);
  set(ElementKind::BF16, peak.half);
}

/// `vectorFlops`: float32 outside the matrix units.
static void setGPU(Machine &machine, const ProductFlops &peak,
                   double vectorFlops, double memoryBytesPerSecond,
                   int64_t memoryBytes) {
  double memory = 0.85 * memoryBytesPerSecond;
  double launch = 3 * kMicro;
  machine.memoryBytesPerDevice = memoryBytes;
  rateOf(machine, ComputeClass::Elementwise) = {vectorFlops, memory, launch};
  rateOf(machine, ComputeClass::Row) = {vectorFlops, memory, launch};
  Throughput &matmul = rateOf(machine, ComputeClass::Matmul);
  matmul = {0.7 * peak.half, memory, launch};
  setProducts(matmul, peak, 0.7);
  Throughput &convolution = rateOf(machine, ComputeClass::Convolution);
  convolution = {0.55 * peak.half, memory, launch};
  setProducts(convolution, peak, 0.55);
  rateOf(machine, ComputeClass::Gather) = {vectorFlops, 0.5 * memory, launch};
}

namespace {
/// GPUs that come as nodes of 1, 4 or 8, joined by NVLink or PCIe. Sources of
/// the figures: docs/CostModel.md.
struct GpuKind {
  llvm::StringLiteral name, text;
  ProductFlops products;
  double vectorFlops;
  double memoryBytesPerSecond;
  int64_t memoryBytes;
  double linkBytesPerSecond; ///< inside a node
  double linkLatencySeconds;
  double networkBytesPerSecond; ///< per GPU; 0: one 100GbE port for all
};
} // namespace

static constexpr GpuKind kGpuKinds[] = {
    {"h100",
     "H100 SXM, NVLink 4, NDR400 per GPU",
     {989 * kTera, 494.5 * kTera, 67 * kTera, 67 * kTera},
     60 * kTera,
     3.35 * kTera,
     80 * kGiB,
     365 * kGiga,
     2 * kMicro,
     50 * kGiga},
    {"h200",
     "H200 SXM, NVLink 4, NDR400 per GPU",
     {989 * kTera, 494.5 * kTera, 67 * kTera, 67 * kTera},
     60 * kTera,
     4.8 * kTera,
     141 * int64_t(1'000'000'000),
     365 * kGiga,
     2 * kMicro,
     50 * kGiga},
    {"a100-40gb",
     "A100 SXM of 40 GB, NVLink 3, HDR200 per GPU",
     {312 * kTera, 156 * kTera, 19.5 * kTera, 19.5 * kTera},
     17.5 * kTera,
     1.555 * kTera,
     40 * kGiB,
     243 * kGiga,
     2 * kMicro,
     25 * kGiga},
    {"a100-80gb",
     "A100 SXM of 80 GB, NVLink 3, HDR200 per GPU",
     {312 * kTera, 156 * kTera, 19.5 * kTera, 19.5 * kTera},
     17.5 * kTera,
     2.039 * kTera,
     80 * kGiB,
     243 * kGiga,
     2 * kMicro,
     25 * kGiga},
    {"l40s",
     "L40S cards on PCIe 4 x16, one 100GbE port",
     {362 * kTera, 183 * kTera, 91.6 * kTera, 1.4 * kTera},
     82 * kTera,
     0.864 * kTera,
     48 * int64_t(1'000'000'000),
     27.5 * kGiga,
     4 * kMicro,
     0}};

/// What NVLink 4 reached on eight H200s.
static void setMeasuredCurve(Link &link) {
  // Share of the peak algorithm bandwidth.
  double peak = link.bytesPerSecond / 1.75;
  link.curveGroupSize = 8;
  link.allReduceCurve.push_back({0, 28 * kMicro}); // 14 ring steps
  for (auto [mebibytes, share] : {std::pair<int64_t, double>{16, 0.46},
                                  {32, 0.57},
                                  {64, 0.72},
                                  {128, 0.83},
                                  {1024, 1.0}})
    link.allReduceCurve.push_back(
        {mebibytes * kMiB,
         static_cast<double>(mebibytes * kMiB) / (share * peak)});
}

static Machine gpuNodes(const GpuKind &gpu, int64_t perNode, int64_t nodes) {
  Machine machine;
  machine.nodes = nodes;
  machine.devicesPerNode = perNode;
  setGPU(machine, gpu.products, gpu.vectorFlops, gpu.memoryBytesPerSecond,
         gpu.memoryBytes);
  machine.local.latencySeconds = gpu.linkLatencySeconds;
  machine.local.bytesPerSecond = gpu.linkBytesPerSecond;
  if (gpu.name == "h200")
    setMeasuredCurve(machine.local);
  bool hasOwnPorts = gpu.networkBytesPerSecond > 0;
  machine.network.latencySeconds = (hasOwnPorts ? 5 : 14) * kMicro;
  machine.network.bytesPerSecond =
      hasOwnPorts ? gpu.networkBytesPerSecond : 12 * kGiga;
  machine.portsPerNode = hasOwnPorts ? perNode : 1;
  machine.description = (llvm::Twine(nodes) + " node" + (nodes > 1 ? "s" : "") +
                         " of " + llvm::Twine(perNode) + " " + gpu.text)
                            .str();
  return machine;
}

/// One PCIe 5 card with an H100's silicon, as in workstations and hosts.
static void setPCIeCard(Machine &machine) {
  setGPU(machine, {756 * kTera, 378 * kTera, 51 * kTera, 51 * kTera},
         48 * kTera, 2.0 * kTera, 80 * kGiB);
}

static Machine pcieBox() {
  Machine machine;
  machine.devicesPerNode = 8;
  setPCIeCard(machine);
  machine.local.latencySeconds = 4 * kMicro;
  machine.local.bytesPerSecond = 55 * kGiga;
  machine.network = machine.local;
  machine.network.bytesPerSecond = 12 * kGiga;
  machine.portsPerNode = 1;
  machine.description = "one box of 8 H100 PCIe cards on PCIe 5 x16";
  return machine;
}

static Machine ethernet(int64_t nodes) {
  Machine machine;
  machine.nodes = nodes;
  setPCIeCard(machine);
  machine.network.latencySeconds = 14 * kMicro;
  machine.network.bytesPerSecond = 12 * kGiga; // 100GbE
  machine.portsPerNode = 1;
  machine.description =
      (llvm::Twine(nodes) + " hosts with one H100 PCIe card on 100GbE").str();
  return machine;
}

//===----------------------------------------------------------------------===//
// This host
//===----------------------------------------------------------------------===//

/// One rank per device, one thread each; ranks beyond the cores share them.
static Machine cpuRanks(int64_t ranks, const HostInfo &host) {
  Machine machine;
  machine.devicesPerNode = ranks;
  machine.cores = std::max<int64_t>(host.cores, 1);
  machine.memoryBytesPerDevice = host.memoryBytes / ranks;
  machine.ranksThatSaturateMemory =
      std::max(2.0, static_cast<double>(machine.cores) / 4);
  double call = 2 * kMicro;
  rateOf(machine, ComputeClass::Elementwise) = {15 * kGiga, 20 * kGiga, call};
  rateOf(machine, ComputeClass::Row) = {12 * kGiga, 17 * kGiga, call};
  rateOf(machine, ComputeClass::Matmul) = {220 * kGiga, 20 * kGiga, call};
  rateOf(machine, ComputeClass::Convolution) = {230 * kGiga, 20 * kGiga, call};
  rateOf(machine, ComputeClass::Gather) = {15 * kGiga, 8 * kGiga, call};
  machine.local.latencySeconds = 3 * kMicro;
  machine.local.bytesPerSecond = 28 * kGiga;
  // Shared-memory all-reduce of two ranks in cache-sized chunks.
  machine.local.curveGroupSize = 2;
  machine.local.allReduceCurve = {{0, 4 * kMicro},
                                  {1 * kMiB, 6 * kMicro},
                                  {16 * kMiB, 290 * kMicro},
                                  {64 * kMiB, 2350 * kMicro}};
  machine.description = (llvm::Twine(ranks) + " thread ranks on " +
                         llvm::Twine(machine.cores) + " cores of this host")
                            .str();
  return machine;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::vector<std::pair<std::string, std::string>>
kerf::cost::machinePresetNames() {
  std::vector<std::pair<std::string, std::string>> names = {
      {"cpu", "thread ranks of this host"}};
  for (const GpuKind &gpu : kGpuKinds)
    names.push_back({(gpu.name + "-D").str(),
                     ("one node of D = 1, 4 or 8 " + gpu.text).str()});
  names.push_back({"GPU-DxN", "N such nodes, as h100-8x4"});
  names.push_back({"pcie-8", "one box of 8 H100 PCIe cards"});
  names.push_back({"ethernet-N", "N hosts of one H100 PCIe card on 100GbE"});
  return names;
}

/// The N of "prefixN"; nullopt if the rest is no number in 1..kMaxDevices.
static std::optional<int64_t> suffixNumber(llvm::StringRef name,
                                           llvm::StringRef prefix) {
  int64_t number;
  if (!name.consume_front(prefix) || name.getAsInteger(10, number) ||
      number < 1 || number > kMaxDevices)
    return std::nullopt;
  return number;
}

static std::optional<Machine>
makePreset(llvm::StringRef name, int64_t numDevices, const HostInfo &host) {
  if (name == "cpu")
    return cpuRanks(
        numDevices > 0 ? numDevices : std::max<int64_t>(host.cores, 1), host);
  for (const GpuKind &gpu : kGpuKinds)
    for (int64_t perNode : {1, 4, 8}) {
      std::string node = (gpu.name + "-" + llvm::Twine(perNode)).str();
      if (name == node)
        return gpuNodes(gpu, perNode, 1);
      if (std::optional<int64_t> nodes = suffixNumber(name, node + "x"))
        return gpuNodes(gpu, perNode, *nodes);
    }
  if (name == "pcie-8")
    return pcieBox();
  if (std::optional<int64_t> nodes = suffixNumber(name, "ethernet-"))
    return ethernet(*nodes);
  return std::nullopt;
}

/// What was probably meant by a name that is none: "h100-8" by "H100-8" and
/// "h100", both kinds of A100 by "a100"; empty: nothing.
static std::string meantPresets(llvm::StringRef name, const HostInfo &host) {
  std::string lower = name.lower();
  if (makePreset(lower, 0, host))
    return lower;
  llvm::StringRef text = lower, model = text.take_until([](char letter) {
    return !llvm::isAlnum(letter) || letter == 'x';
  });
  std::vector<std::string> meant;
  for (const GpuKind &gpu : kGpuKinds) {
    llvm::StringRef rest = text;
    int64_t devices = 8;
    if (rest.consume_front(gpu.name)) {
      // "h100x4", "h100-16"; others are told which sizes of nodes there are.
      rest = rest.ltrim("-_x ");
      bool isNumber = !rest.empty() && !rest.getAsInteger(10, devices);
      if (isNumber && devices > 8 && devices % 8 == 0)
        return (gpu.name + "-8x" + llvm::Twine(devices / 8)).str();
      if (isNumber && devices != 1 && devices != 4 && devices != 8)
        return "";
    } else if (text.size() < 2 || (!gpu.name.starts_with(text) &&
                                   gpu.name.split('-').first != model)) {
      continue;
    }
    meant.push_back((gpu.name + "-" + llvm::Twine(devices)).str());
  }
  if (meant.empty())
    return kerf::closestName(lower, {"pcie-8", "ethernet-8"});
  return llvm::join(meant, " or ");
}

HostInfo kerf::cost::thisHost() {
  HostInfo host;
  host.cores = hostCores().usable;
  host.memoryBytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return host;
}

llvm::Expected<Machine> kerf::cost::loadMachine(llvm::StringRef nameOrPath,
                                                int64_t numDevices) {
  if (!nameOrPath.ends_with(".json"))
    return machinePreset(nameOrPath, numDevices, thisHost());
  auto buffer = llvm::MemoryBuffer::getFile(nameOrPath);
  if (!buffer)
    return llvm::createStringError(nameOrPath + ": " +
                                   buffer.getError().message());
  llvm::Expected<Machine> machine =
      parseMachine((*buffer)->getBuffer(), nameOrPath);
  if (machine && machine->numDevices() < numDevices)
    return llvm::createStringError(
        machine->name + " has " + llvm::Twine(machine->numDevices()) +
        " devices, expected at least " + llvm::Twine(numDevices));
  return machine;
}

llvm::Expected<Machine> kerf::cost::machinePreset(llvm::StringRef name,
                                                  int64_t numDevices,
                                                  const HostInfo &host) {
  if (numDevices < 0 || numDevices > kMaxDevices)
    return llvm::createStringError(llvm::Twine(numDevices) +
                                   " devices, expected 1 to " +
                                   llvm::Twine(kMaxDevices));
  std::optional<Machine> machine = makePreset(name, numDevices, host);
  if (!machine) {
    std::string names;
    for (auto &[preset, what] : machinePresetNames())
      names += (names.empty() ? "" : ", ") + preset;
    std::string meant = meantPresets(name, host);
    return llvm::createStringError(
        "unknown machine \"" + name + "\", " +
        (meant.empty() ? "expected "
                       : "did you mean " + meant + "? Expected is ") +
        "a JSON file or one of " + names + " (D is 1, 4 or 8)");
  }
  machine->name = name.str();
  if (numDevices == 0 || numDevices == machine->numDevices())
    return *machine;
  if (numDevices > machine->numDevices()) {
    int64_t nodes = llvm::divideCeil(numDevices, machine->devicesPerNode);
    std::string larger =
        (name.split('x').first + "x" + llvm::Twine(nodes)).str();
    bool exists = makePreset(larger, 0, host).has_value();
    return llvm::createStringError(
        "machine \"" + name + "\" has " + llvm::Twine(machine->numDevices()) +
        " devices, " + llvm::Twine(numDevices) + " asked for" +
        (exists ? ": \"" + larger + "\" has as many" : ""));
  }
  // Part of the machine: whole nodes, or part of one.
  if (numDevices <= machine->devicesPerNode) {
    machine->nodes = 1;
    machine->devicesPerNode = numDevices;
  } else if (numDevices % machine->devicesPerNode == 0) {
    machine->nodes = numDevices / machine->devicesPerNode;
  } else {
    return llvm::createStringError(
        llvm::Twine(numDevices) + " devices of machine \"" + name +
        "\", expected at most " + llvm::Twine(machine->devicesPerNode) +
        " or a multiple of it");
  }
  return *machine;
}
