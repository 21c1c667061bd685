//===- OptionValues.cpp - values of options, and figures for people -------===//
#include "../Options.h"

#include "kerf/Format/Decimal.h"

#include <cmath>
#include <cstdio>
#include <numeric>

using namespace kerf::tool;

static int64_t parseInteger(const std::string &text, const std::string &what) {
  size_t used = 0;
  long long value = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception &) {
    used = 0;
  }
  if (text.empty() || used != text.size())
    throw Failure{kUsage, what + ": '" + text + "' is not an integer", {}};
  return value;
}

/// More are a typo.
static constexpr int64_t kMaxDevices = 65536;

/// What was meant by "gpu:4" or "nvidia:4": four GPUs, or one by its number.
static std::string meantGpus(const std::string &kind, const std::string &rest) {
  std::string lower = llvm::StringRef(kind).lower();
  int64_t count = 0;
  bool isNumber = !llvm::StringRef(rest).getAsInteger(10, count);
  if (lower != "gpu" && lower != "gpus" && lower != "nvidia" && lower != "cuda")
    return "";
  if (!isNumber || count < 1 || count > kMaxDevices)
    return ": GPUs are cuda:0-3, by their numbers";
  if (count == 1)
    return ": one GPU is cuda:0, the one of number 1 is cuda:1";
  std::string number = std::to_string(count);
  return ": " + number + " GPUs are cuda:0-" + std::to_string(count - 1) +
         ", the one of number " + number + " is cuda:" + number;
}

Devices kerf::tool::parseDevices(const std::string &text) {
  Devices devices;
  auto number = [&](const std::string &digits) {
    int64_t value = 0;
    if (llvm::StringRef(digits).getAsInteger(10, value))
      throw Failure{kUsage,
                    "--devices: '" + text +
                        "', expected as 8, cpu:4 or cuda:0-3" +
                        (text == "cuda" ? " (one GPU is cuda:0)" : ""),
                    {}};
    return value;
  };
  std::string rest = text;
  if (size_t colon = text.find(':'); colon != std::string::npos) {
    devices.kind = text.substr(0, colon);
    rest = text.substr(colon + 1);
  }
  if (devices.kind != "cpu" && devices.kind != "cuda")
    throw Failure{kUsage,
                  "--devices: unknown kind '" + devices.kind +
                      "', expected cpu or cuda" + meantGpus(devices.kind, rest),
                  {}};
  if (devices.kind == "cuda") {
    size_t dash = rest.find('-');
    int64_t first = number(rest.substr(0, dash));
    int64_t last =
        dash == std::string::npos ? first : number(rest.substr(dash + 1));
    if (first < 0 || last < first)
      throw Failure{kUsage, "--devices: bad range '" + rest + "'", {}};
    devices.count = std::min(last - first, kMaxDevices) + 1;
    devices.ids.resize(devices.count);
    std::iota(devices.ids.begin(), devices.ids.end(), first);
  } else {
    devices.count = number(rest);
  }
  if (devices.count < 1 || devices.count > kMaxDevices)
    throw Failure{kUsage,
                  "--devices: " + std::to_string(devices.count) +
                      " devices, expected 1 to " + std::to_string(kMaxDevices),
                  {}};
  return devices;
}

std::pair<std::string, int64_t>
kerf::tool::parseBinding(const std::string &text, const std::string &flag) {
  size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Failure{kUsage, flag + ": '" + text + "', expected NAME=NUMBER", {}};
  return {text.substr(0, equals), parseInteger(text.substr(equals + 1), flag)};
}

int64_t kerf::tool::parseBytes(const std::string &text,
                               const std::string &flag) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  bool isNumber = isDecimal(text.substr(0, text.size() - unit.size()));
  const std::pair<const char *, double> units[] = {
      {"B", 1},          {"KB", 1e3},          {"MB", 1e6},
      {"GB", 1e9},       {"TB", 1e12},         {"KiB", 1024.},
      {"MiB", 1048576.}, {"GiB", 1073741824.}, {"TiB", 1099511627776.}};
  for (const auto &[name, factor] : units)
    if (isNumber && unit == name && value >= 0) {
      if (!(value * factor < 9e18))
        throw Failure{
            kUsage, flag + ": '" + text + "' is more than 2^63 bytes", {}};
      return static_cast<int64_t>(std::llround(value * factor));
    }
  throw Failure{kUsage,
                flag + ": '" + text +
                    "' is not a size, expected a number and one of B, KB, MB, "
                    "GB, TB, KiB, MiB, GiB, TiB, as in 80GiB",
                {}};
}

std::string kerf::tool::elementsText(int64_t elements) {
  return elements == 1
             ? "1 element"
             : formatCount(static_cast<double>(elements)) + " elements";
}
