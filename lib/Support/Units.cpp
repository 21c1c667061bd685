//===- Units.cpp - figures for people -------------------------------------===//
#include "kerf/Support/Units.h"

#include <cmath>
#include <cstdio>
#include <initializer_list>

/// `more` digits than three.
static std::string formatScaled(double value, double base,
                                std::initializer_list<const char *> units,
                                int more = 0) {
  auto unit = units.begin();
  while (std::fabs(value) >= base && unit + 1 != units.end()) {
    value /= base;
    ++unit;
  }
  char text[64];
  int digits = unit == units.begin() && value == std::floor(value) ? 0
               : std::fabs(value) < 9.995                          ? 2 + more
               : std::fabs(value) < 99.95                          ? 1 + more
                                                                   : more;
  std::snprintf(text, sizeof(text), "%.*f%s", digits, value, *unit);
  return text;
}

static std::string formatBytesTo(double bytes, int more) {
  return formatScaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"},
                      more);
}

std::string kerf::formatBytes(double bytes) { return formatBytesTo(bytes, 0); }

std::string kerf::formatBytesBeside(double bytes, double other) {
  int more = 0;
  if (bytes != other)
    while (more < 12 &&
           formatBytesTo(bytes, more) == formatBytesTo(other, more))
      ++more;
  return formatBytesTo(bytes, more);
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
