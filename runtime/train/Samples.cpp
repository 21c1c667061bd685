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
    for (int64_t i = 0; i < (column.isShared ? 1 : samples.count); i += step) {
      column.read(i, sample.data());
      add(sample.data(), sample.size());
    }
  }
  return hash;
}

void kerf::rt::requireLabels(const Samples &samples, const TrainLoss &loss,
                             const std::string &path) {
  if (loss.classes <= 0)
    return;
  for (const Column &column : samples.columns) {
    ConvertFn widen = exactConversion(column.dtype, KERF_I64);
    if (!column.isLabels || !widen || !isInteger(column.dtype))
      continue;
    std::vector<char> stored(static_cast<size_t>(column.sampleBytes()));
    std::vector<int64_t> labels(static_cast<size_t>(column.elements));
    bool anyCounts = false;
    for (int64_t i = 0; i < samples.count; ++i) {
      column.read(i, stored.data());
      widen(stored.data(), reinterpret_cast<char *>(labels.data()),
            column.elements);
      for (int64_t label : labels) {
        anyCounts |= !loss.ignores || label != loss.ignoreIndex;
        if ((label < 0 || label >= loss.classes) &&
            !(loss.ignores && label == loss.ignoreIndex))
          throw Error(
              KERF_INVALID_ARGUMENT,
              cat(path, ": a label of sample ", i, " is ", label,
                  ", expected 0 to ", loss.classes - 1,
                  loss.ignores ? cat(" or ", loss.ignoreIndex, " (ignored)")
                               : std::string(),
                  label == loss.classes ? "; classes count from 0" : ""));
      }
    }
    if (!anyCounts && samples.count > 0 && loss.hasClasses())
      throw Error(KERF_INVALID_ARGUMENT,
                  cat(path, ": no label counts: all of \"", column.name,
                      "\" are ", loss.ignoreIndex, " (ignore_index)"));
  }
}
