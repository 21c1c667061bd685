//===- HostMachine.cpp - a calibration that is kept -----------------------===//
//
// The preset `cpu` is one CPU for all; a plan that runs here is made for the
// CPU that is here. Measured once for each number of ranks and threads, and
// again when Kerf or the host is another one: the file's name has a hash of
// both. A file that cannot be read as such a machine is measured again. Many
// more ranks than cores take turns, so that measuring them takes minutes and
// says little of the machine: these are planned for the preset.
//
//===----------------------------------------------------------------------===//
#include "../Setup.h"
#include "../files/Cache.h"
#include "Calibrate.h"

#include "kerf/rt/printable.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include "llvm/TargetParser/Host.h"

#include <chrono>
#include <cstdlib>

using namespace kerf;
using namespace kerf::tool;

/// The CPU as the system names it; LLVM's name for its kind does not tell
/// clocks and caches apart.
static std::string cpuName() {
  std::string name = llvm::sys::getHostCPUName().str();
  auto buffer = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo");
  if (!buffer)
    return name;
  llvm::SmallVector<llvm::StringRef> lines;
  (*buffer)->getBuffer().split(lines, '\n');
  for (llvm::StringRef line : lines)
    if (line.starts_with("model name"))
      return name + line.split(':').second.trim().str();
  return name;
}

/// Whether a machine of these ranks can be read from the file.
static bool holds(const std::string &path, int64_t ranks, int64_t threads) {
  llvm::Expected<cost::Machine> machine = cost::loadMachine(path, ranks);
  if (!machine) {
    llvm::consumeError(machine.takeError());
    return false;
  }
  return machine->numDevices() == ranks && machine->threadsPerDevice == threads;
}

/// Keeps the text; empty, or why it cannot be kept.
static std::string keep(const std::string &folder, const std::string &path,
                        const std::string &text) {
  if (folder.empty())
    return "neither XDG_CACHE_HOME nor HOME names a folder";
  if (std::error_code error = llvm::sys::fs::create_directories(folder))
    return folder + ": " + error.message();
  try {
    writeFile(path, text);
  } catch (const Failure &failure) {
    return failure.message;
  }
  return "";
}

bool kerf::tool::wantsHostMachine(const Options &options) {
  Devices devices = parseDevices(options.devices);
  return devices.kind == "cpu" && devices.count > 1 &&
         options.machine.empty() && options.planFile.empty() &&
         options.ranks != "processes";
}

void kerf::tool::takeHostMachine(Options &options, const std::string &folder) {
  int64_t ranks = parseDevices(options.devices).count;
  if (std::string given = environment("KERF_HOST_MACHINE"); !given.empty()) {
    if (auto machine = cost::loadMachine(given, ranks); !machine)
      throw Failure{kUsage,
                    "KERF_HOST_MACHINE: " + llvm::toString(machine.takeError()),
                    {}};
    options.machine = given;
    return;
  }
  cost::HostInfo host = cost::thisHost();
  if (int64_t max = std::max<int64_t>(16, 4 * host.cores); ranks > max) {
    options.machine = "cpu";
    if (!options.quiet)
      llvm::errs() << llvm::formatv(
          "note: {0} ranks are planned for the preset cpu: a host of {1} cores "
          "is measured for at most {2}\n",
          ranks, host.cores, max);
    return;
  }
  int64_t threads = options.threads > 0
                        ? options.threads
                        : std::max<int64_t>(host.cores / ranks, 1);
  uint64_t hash =
      llvm::xxh3_64bits(llvm::formatv("{0}|{1}|{2}|{3}", KERF_VERSION,
                                      cpuName(), host.cores, host.memoryBytes)
                            .str());
  std::string name =
      llvm::formatv("cpu-{0}x{1}-{2:x-16}.json", ranks, threads, hash).str();
  std::string cache = cacheFolder(), path = cache + "/" + name;
  if (!cache.empty() && holds(path, ranks, threads)) {
    options.machine = path;
    if (options.verbose)
      llvm::errs() << "note: planned for this host as measured: "
                   << rt::printable(path) << "\n";
    return;
  }
  auto start = std::chrono::steady_clock::now();
  std::string text = cost::writeMachine(
      calibrateRanks(ranks, threads, /*quick=*/true, /*silent=*/true));
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  std::string why = keep(cache, path, text);
  options.machine = path;
  if (!why.empty()) {
    options.machine = folder + "/" + name;
    writeFile(options.machine, text);
  }
  if (!options.quiet)
    llvm::errs() << llvm::formatv(
        "note: measured the {0} ranks of this host in {1:f1} s to plan for "
        "them, {2}; --machine=cpu plans for the preset\n",
        ranks, seconds,
        rt::printable(why.empty() ? "kept in " + path
                                  : "not kept (" + why + ")"));
}
