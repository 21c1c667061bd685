//===- Figures.h - numbers for people ---------------------------*- C++ -*-===//
#ifndef KERF_RT_RUN_FIGURES_H
#define KERF_RT_RUN_FIGURES_H

#include <cmath>
#include <cstdio>
#include <string>

namespace kerf::rt {

/// Three digits, without an exponent where a number is large: 0.0123, 12.3,
/// 1,230, 237,000.
inline std::string threeDigits(double value) {
  char text[400]; // of the largest double
  if (!(std::fabs(value) >= 999.5) || std::isinf(value)) {
    std::snprintf(text, sizeof(text), "%.3g", value);
    return text;
  }
  double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 2);
  std::snprintf(text, sizeof(text), "%.0f", std::round(value / unit) * unit);
  std::string digits = text;
  for (size_t at = digits.size(); at > (value < 0 ? 4U : 3U);)
    digits.insert(at -= 3, ",");
  return digits;
}

} // namespace kerf::rt

#endif // KERF_RT_RUN_FIGURES_H
