//===- Units.cpp - figures for people -------------------------------------===//
#include "kerf/Support/Units.h"

#include <cmath>
#include <cstdio>
#include <initializer_list>

static std::string formatScaled(double value, double base,
                                std::initializer_list<const char *> units) {
  auto unit = units.begin();
  while (std::fabs(value) >= base && unit + 1 != units.end()) {
    value /= base;
    ++unit;
  }
  char text[64];
  const char *format = unit == units.begin() && value == std::floor(value)
                           ? "%.0f%s"
                       : std::fabs(value) < 9.995 ? "%.2f%s"
                       : std::fabs(value) < 99.95 ? "%.1f%s"
                                                  : "%.0f%s";
  std::snprintf(text, sizeof(text), format, value, *unit);
  return text;
}

std::string kerf::formatBytes(double bytes) {
  return formatScaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string kerf::formatCount(double count) {
  return formatScaled(count, 1000, {"", " k", " M", " G", " T", " P"});
}

std::string kerf::formatFlops(double count) {
  return formatScaled(
      count, 1000, {" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP"});
}

std::string kerf::formatSeconds(double seconds) {
  if (seconds >= 1)
    return formatScaled(seconds, 1e9, {" s"});
  return formatScaled(seconds * 1e9, 1000, {" ns", " us", " ms"});
}
