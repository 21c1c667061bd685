//===- Options.h - option structs of the C ABI ------------------*- C++ -*-===//
#ifndef KERF_RUNTIME_BASE_OPTIONS_H
#define KERF_RUNTIME_BASE_OPTIONS_H

#include <algorithm>
#include <cstring>

namespace kerf::rt {

/// What a caller that was compiled against an older header passes is shorter,
/// or it passes nothing: what it does not say is zero.
template <typename T> T completed(const T *given) {
  T options;
  std::memset(&options, 0, sizeof(T));
  if (given)
    std::memcpy(&options, given, std::min(sizeof(T), given->struct_size));
  return options;
}

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_OPTIONS_H
