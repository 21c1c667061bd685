//===- BadIndex.cpp - which input has an index out of range ---------------===//
#include "BadIndex.h"

#include "Convert.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

int kerf::rt::suspicionOf(const std::string &failure,
                          const kerf_tensor_info_t &info) {
  std::optional<int64_t> index = badIndexOf(failure);
  static constexpr char dimension[] = "of a dimension of size ";
  size_t at = failure.find(dimension);
  if (!index || at == std::string::npos)
    return 0;
  int64_t size =
      std::strtoll(failure.c_str() + at + sizeof(dimension) - 1, nullptr, 10);
  if (info.range_high == size)
    return 2;
  return *index < -info.range_high || *index >= info.range_high ? 1 : 0;
}
