//===- BadIndex.cpp - which input has an index out of range ---------------===//
#include "BadIndex.h"

#include "Convert.h"

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace kerf::rt;

std::optional<int64_t> kerf::rt::badIndexOf(const std::string &failure) {
  size_t at = failure.find("index ");
  long long index = 0;
  int end = 0;
  if (at == std::string::npos ||
      std::sscanf(failure.c_str() + at, "index %lld is out of range%n", &index,
                  &end) != 1 ||
      end == 0)
    return std::nullopt;
  return index;
}

std::optional<int64_t> kerf::rt::placeOfIndex(const char *data, size_t bytes,
                                              kerf_dtype_t dtype,
                                              int64_t index) {
  ConvertFn widen = exactConversion(dtype, KERF_I64);
  if (!widen || !isInteger(dtype))
    return std::nullopt;
  std::vector<int64_t> values(bytes / kerf_dtype_size(dtype));
  widen(data, reinterpret_cast<char *>(values.data()),
        static_cast<int64_t>(values.size()));
  auto found = std::find(values.begin(), values.end(), index);
  if (found == values.end())
    return std::nullopt;
  return found - values.begin();
}
