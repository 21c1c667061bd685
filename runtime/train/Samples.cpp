//===- Samples.cpp - fingerprint and label range of samples ---------------===//
#include "Data.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

using namespace kerf::rt;

uint64_t kerf::rt::fingerprint(const Samples &samples) {
  uint64_t hash = static_cast<uint64_t>(samples.count);
  auto add = [&](const void *data, size_t bytes) {
    hash = XXH3_64bits_withSeed(data, bytes, hash);
  };
  int64_t step = std::max<int64_t>(1, samples.count / 256);
  for (const Column &column : samples.columns) {
    add(column.name.data(), column.name.size());
    int64_t facts[] = {column.dtype, column.elements};
    add(facts, sizeof(facts));
    std::vector<char> sample(static_cast<size_t>(column.sampleBytes()));
    for (int64_t i = 0; i < samples.count; i += step) {
      column.read(i, sample.data());
      add(sample.data(), sample.size());
    }
  }
  return hash;
}

std::optional<int64_t> kerf::rt::labelOutOfRange(const Column &column,
                                                 int64_t sample,
                                                 int64_t classes,
                                                 int64_t ignored) {
  ConvertFn widen = exactConversion(column.dtype, KERF_I64);
  if (!widen || !isInteger(column.dtype))
    return {};
  std::vector<char> stored(static_cast<size_t>(column.sampleBytes()));
  column.read(sample, stored.data());
  std::vector<int64_t> labels(static_cast<size_t>(column.elements));
  widen(stored.data(), reinterpret_cast<char *>(labels.data()),
        column.elements);
  for (int64_t label : labels)
    if (label != ignored && (label < 0 || label >= classes))
      return label;
  return {};
}
