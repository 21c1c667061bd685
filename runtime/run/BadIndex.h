//===- BadIndex.h - which input has an index out of range -------*- C++ -*-===//
#ifndef KERF_RUNTIME_RUN_BADINDEX_H
#define KERF_RUNTIME_RUN_BADINDEX_H

#include "kerf/rt/runtime.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace kerf::rt {

/// The index of a program's message that one is out of range: rank programs
/// fail with a text alone (execution/Context.cpp).
std::optional<int64_t> badIndexOf(const std::string &failure);

/// The place of the first element that is `index`; none where no element is, or
/// where elements are no integers.
std::optional<int64_t> placeOfIndex(const char *data, size_t bytes,
                                    kerf_dtype_t dtype, int64_t index);

/// How likely it is that the index is of an input which has it somewhere: 2
/// where the input is known to count what is of the size that the message gives
/// (kerf_tensor_info_t has the range of a table's rows), 1 where the index is
/// not in its range, else 0.
int suspicionOf(const std::string &failure, const kerf_tensor_info_t &info);

} // namespace kerf::rt

#endif // KERF_RUNTIME_RUN_BADINDEX_H
