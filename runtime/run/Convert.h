//===- Convert.h - elements of one type become those of another -*- C++ -*-===//
#ifndef KERF_RT_RUN_CONVERT_H
#define KERF_RT_RUN_CONVERT_H

#include "kerf/rt/runtime.h"

#include <cstdint>

namespace kerf::rt {

/// Copies `count` elements from unaligned `from`, of another type, to `to`.
using ConvertFn = void (*)(const char *from, char *to, int64_t count);
/// Null unless every value of `from` is a value of `to`.
ConvertFn exactConversion(kerf_dtype_t from, kerf_dtype_t to);
bool isInteger(kerf_dtype_t dtype);

} // namespace kerf::rt

#endif // KERF_RT_RUN_CONVERT_H
