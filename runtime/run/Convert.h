//===- Convert.h - elements of one type become those of another -*- C++ -*-===//
#ifndef KERF_RT_RUN_CONVERT_H
#define KERF_RT_RUN_CONVERT_H

#include "kerf/rt/runtime.h"

#include <cstdint>
#include <string>

namespace kerf::rt {

/// Copies `count` elements from unaligned `from`, of another type, to `to`.
using ConvertFn = void (*)(const char *from, char *to, int64_t count);
/// Null unless every value of `from` is a value of `to`.
ConvertFn exactConversion(kerf_dtype_t from, kerf_dtype_t to);
/// ", which does not hold every i64; NumPy's .astype(\"int32\") converts what
/// fits": the end of a message where there is no exact conversion.
std::string doesNotHold(kerf_dtype_t to, kerf_dtype_t from);
bool isInteger(kerf_dtype_t dtype);

} // namespace kerf::rt

#endif // KERF_RT_RUN_CONVERT_H
