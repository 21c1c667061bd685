//===- Units.h - figures for people -----------------------------*- C++ -*-===//
//
// Three digits and a unit, the same in messages of libraries and in reports:
// "1.50 MiB", "12.3 us", "118 k". Whole numbers below the second unit stay as
// they are: "512 B".
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_UNITS_H
#define KERF_SUPPORT_UNITS_H

#include <string>

namespace kerf {

std::string formatBytes(double bytes); ///< B to TiB
/// With as many digits as tell it from `other`, which gets as many.
std::string formatBytesBeside(double bytes, double other);
std::string formatSeconds(double seconds); ///< ns to s
std::string formatCount(double count);     ///< none to P
std::string formatFlops(double count);     ///< FLOP to PFLOP

} // namespace kerf

#endif // KERF_SUPPORT_UNITS_H
