//===- Driver.cpp - CUDA's driver, opened at run time ---------------------===//
//
// The three ways in which a machine can have no GPU are told apart: no driver
// library, a driver that does not start, and a driver without a device.
//
//===----------------------------------------------------------------------===//
#include "Driver.h"

#include "Find.h"

#include <cstdlib>

using namespace kerf::rt;

std::string GpuInfo::text() const {
  return cat(name, " (sm_", major, minor, ")");
}

std::string Driver::describe(cu::Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName)
    getErrorName(result, &name);
  if (getErrorString)
    getErrorString(result, &text);
  return cat(name ? name : "CUDA error ", name ? "" : std::to_string(result),
             text ? ": " : "", text ? text : "");
}

void Driver::check(cu::Result result, const std::string &what) const {
  if (result == cu::Success)
    return;
  kerf_code_t code = result == cu::ErrorOutOfMemory ? KERF_OUT_OF_MEMORY
                                                    : KERF_PROGRAM_FAILURE;
  throw Error(code, cat(what, " failed: ", describe(result)));
}

static Driver load() {
  Driver driver;
  OpenedLibrary library = openLibrary(
      {"the CUDA driver", "KERF_CUDA_DRIVER", {"libcuda.so.1"}, {}});
  if (!library.handle)
    throw Error(KERF_UNSUPPORTED_HOST,
                "no CUDA driver on this machine, so no GPU can be used: " +
                    library.error);
  driver.path = library.path;
  std::string missing;
#define KERF_CUDA_LOAD(member, name, arguments)                                \
  driver.member = reinterpret_cast<cu::member##Fn>(library.symbol(#name));     \
  if (!driver.member && missing.empty())                                       \
    missing = #name;
  KERF_CUDA_DRIVER_FUNCTIONS(KERF_CUDA_LOAD)
#undef KERF_CUDA_LOAD
#define KERF_HOOK_LOAD(member, name)                                           \
  driver.recording.member =                                                    \
      reinterpret_cast<decltype(driver.recording.member)>(                     \
          library.symbol(#name));
  KERF_RECORDING_HOOKS(KERF_HOOK_LOAD)
#undef KERF_HOOK_LOAD
  if (!missing.empty())
    throw Error(KERF_UNSUPPORTED_HOST,
                cat("the CUDA driver ", driver.path, " is too old: it has no ",
                    missing, ", CUDA 12.0 or newer is needed"));
  driver.driverGetVersion(&driver.version);
  cu::Result started = driver.init(0);
  int count = 0;
  if (started == cu::Success)
    started = driver.deviceGetCount(&count);
  if (started == cu::ErrorNoDevice || (started == cu::Success && count == 0))
    throw Error(KERF_UNSUPPORTED_HOST,
                "the CUDA driver finds no GPU on this machine");
  if (started != cu::Success)
    throw Error(KERF_UNSUPPORTED_HOST,
                cat("the CUDA driver ", driver.path,
                    " does not start: ", driver.describe(started)));
  for (int i = 0; i < count; ++i) {
    GpuInfo info;
    char name[256] = "";
    cu::Device device = 0;
    driver.check(driver.deviceGet(&device, i), "cuDeviceGet");
    driver.deviceGetName(name, sizeof(name), device);
    info.name = name;
    driver.deviceGetAttribute(&info.major, cu::AttributeComputeCapabilityMajor,
                              device);
    driver.deviceGetAttribute(&info.minor, cu::AttributeComputeCapabilityMinor,
                              device);
    driver.deviceGetAttribute(&info.multiprocessors,
                              cu::AttributeMultiprocessorCount, device);
    driver.deviceGetAttribute(&info.maxPitch, cu::AttributeMaxPitch, device);
    int kilohertz = 0, bits = 0;
    if (driver.deviceGetAttribute(&kilohertz, cu::AttributeMemoryClockRate,
                                  device) == cu::Success &&
        driver.deviceGetAttribute(&bits, cu::AttributeGlobalMemoryBusWidth,
                                  device) == cu::Success)
      info.bytesPerSecond = 2e3 * kilohertz * bits / 8; // on both edges
    driver.gpus.push_back(info);
  }
  return driver;
}

const Driver &Driver::get() {
  static const Driver driver = load();
  return driver;
}

std::vector<int> kerf::rt::parseGpuList(const std::string &given) {
  auto bad = [&] {
    throw Error(KERF_INVALID_ARGUMENT,
                cat("bad list of GPUs '", given,
                    "', expected numbers and ranges such as 0,2 or 0-3"));
  };
  std::string text = given.rfind("cuda:", 0) == 0 ? given.substr(5) : given;
  std::vector<int> list;
  auto number = [&](const std::string &digits) {
    if (digits.empty() || digits.size() > 4 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      bad();
    return std::atoi(digits.c_str());
  };
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    size_t dash = part.find('-');
    int low = number(part.substr(0, dash));
    int high = dash == std::string::npos ? low : number(part.substr(dash + 1));
    if (high < low || high - low > 4096)
      bad();
    for (int i = low; i <= high; ++i)
      list.push_back(i);
  }
  if (list.empty() || text.back() == ',')
    bad();
  return list;
}

GpuChoice kerf::rt::chooseGpu(const Driver &driver, int64_t rank, int64_t local,
                              int64_t localRanks) {
  auto count = static_cast<int64_t>(driver.gpus.size());
  const char *given = std::getenv("KERF_CUDA_DEVICES");
  const char *share = std::getenv("KERF_SHARE_GPU");
  bool mayShare = share && std::string(share) == "1";
  std::vector<int> list;
  if (given && *given)
    list = parseGpuList(given);
  GpuChoice choice;
  if (!list.empty()) {
    if (local >= static_cast<int64_t>(list.size()) && !mayShare)
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("KERF_CUDA_DEVICES names ", list.size(), " GPUs, rank ",
                      rank, " is number ", local, " on this machine"));
    choice.ordinal = list[local % list.size()];
  } else {
    choice.ordinal = static_cast<int>(mayShare ? local % count : local);
  }
  if (choice.ordinal >= count) {
    std::string there;
    for (int64_t i = 0; i < count; ++i)
      there += cat(i ? ", " : "", i, ": ", driver.gpus[i].text());
    throw Error(KERF_UNSUPPORTED_HOST,
                cat("rank ", rank, " needs GPU ", choice.ordinal,
                    ", this machine has ", count, " (", there,
                    "); KERF_CUDA_DEVICES names others"));
  }
  int64_t places = list.empty() ? count : static_cast<int64_t>(list.size());
  choice.shared = mayShare && localRanks > places;
  return choice;
}
