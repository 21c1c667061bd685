//===- Validators.h - numbers on command lines ------------------*- C++ -*-===//
//
// CLI11's PositiveNumber lets NaN and infinity through, and prints the whole
// range of doubles where a number is refused.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_VALIDATORS_H
#define KERF_TOOLS_VALIDATORS_H

#include "kerf/Format/Decimal.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

namespace kerf::tool {

inline CLI::Validator positiveAndFinite() {
  return CLI::Validator(
      [](std::string &text) {
        double value = std::strtod(text.c_str(), nullptr);
        return isDecimal(text) && std::isfinite(value) && value > 0
                   ? std::string()
                   : "'" + text + "' is not a positive finite number";
      },
      "POSITIVE");
}

/// A scale that changes no digit of what it multiplies.
inline CLI::Validator powerOfTwo() {
  return CLI::Validator(
      [](std::string &text) {
        char *end = nullptr;
        long long value = std::strtoll(text.c_str(), &end, 10);
        bool isOne = !text.empty() && !*end && value > 0 &&
                     value <= (1LL << 32) && (value & (value - 1)) == 0;
        return isOne ? std::string()
                     : "'" + text + "' is no power of two from 1 to 4294967296";
      },
      "");
}

inline CLI::Validator atLeast(int64_t min) {
  return CLI::Validator(
      [min](std::string &text) {
        char *end = nullptr;
        errno = 0;
        long long value = std::strtoll(text.c_str(), &end, 10);
        return !text.empty() && *end == 0 && errno == 0 && value >= min
                   ? std::string()
                   : "'" + text + "' is not an integer of at least " +
                         std::to_string(min);
      },
      "");
}

/// none, all, auto, or every how many blocks one is computed again.
inline CLI::Validator recomputation() {
  return CLI::Validator(
      [](std::string &text) {
        std::string number = text;
        return text == "none" || text == "all" || text == "auto" ||
                       atLeast(1)(number).empty()
                   ? std::string()
                   : "'" + text +
                         "' is none of none, all, auto and integers of at "
                         "least 1";
      },
      "");
}

} // namespace kerf::tool

#endif // KERF_TOOLS_VALIDATORS_H
