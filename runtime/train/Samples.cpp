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

void kerf::rt::requireLabelType(const DataInput &input, const TrainLoss &loss) {
  if (!input.isLabels || (!loss.hasClasses() && loss.classes <= 0))
    return;
  if (input.dtype != KERF_I64 && input.dtype != KERF_I32)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("labels \"", input.name, "\" are ",
                    kerf_dtype_name(input.dtype), ", expected i32 or i64"));
  if (input.dtype == KERF_I32 && loss.ignores &&
      static_cast<int64_t>(static_cast<int32_t>(loss.ignoreIndex)) !=
          loss.ignoreIndex)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("ignore_index is ", loss.ignoreIndex,
                    ", which i32 labels \"", input.name, "\" cannot hold"));
}

/// The token at `place` of a flat file, which is one of its labels or the first
/// of all.
static std::string tokenText(const Samples &samples, int64_t token,
                             int64_t place, int64_t classes,
                             const std::string &path) {
  bool isPrintable = samples.isBytes && token > ' ' && token <= '~';
  std::string byte = isPrintable ? cat(" (byte '", char(token), "')") : "";
  std::string kind = path.substr(path.rfind('.'));
  return cat(path, ": token ", token, byte, " at position ", place,
             place == 0 ? ", the first of all," : " (from 0)",
             " is outside of the model's ", classes, " tokens, 0 to ",
             classes - 1,
             samples.isBytes ? cat("; a ", kind, " file is read as bytes")
                             : std::string());
}

/// Whether a label may stand for none: negative or the largest of its type, in
/// a loss that has the option.
static bool canIgnore(const TrainLoss &loss, int64_t label) {
  return loss.ignores && !loss.isScalar() && label != loss.classes &&
         (label < 0 || label == UINT8_MAX || label == UINT16_MAX);
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
    auto isWrong = [&](int64_t label) {
      return (label < 0 || label >= loss.classes) &&
             !(loss.ignores && label == loss.ignoreIndex);
    };
    if (samples.isTokens && samples.count > 0) { // no label, but a token
      int64_t first = 0;
      const char *token = column.data - column.strideBytes / column.elements;
      std::vector<char> one(static_cast<size_t>(dtypeSize(column.dtype)));
      column.convert(token, one.data(), 1);
      widen(one.data(), reinterpret_cast<char *>(&first), 1);
      if (isWrong(first))
        throw Error(KERF_INVALID_ARGUMENT,
                    tokenText(samples, first, 0, loss.classes, path));
    }
    for (int64_t i = 0; i < samples.count; ++i) {
      column.read(i, stored.data());
      widen(stored.data(), reinterpret_cast<char *>(labels.data()),
            column.elements);
      for (size_t at = 0; at < labels.size(); ++at) {
        int64_t label = labels[at];
        anyCounts |= !loss.ignores || label != loss.ignoreIndex;
        if (isWrong(label)) {
          // The first label is the second token.
          if (samples.isTokens)
            throw Error(KERF_INVALID_ARGUMENT,
                        tokenText(samples, label,
                                  i * column.elements + int64_t(at) + 1,
                                  loss.classes, path));
          throw Error(KERF_INVALID_ARGUMENT,
                      cat(path, ": a label of sample ", i, " is ", label,
                          ", expected 0 to ", loss.classes - 1,
                          loss.ignores
                              ? cat(" or ", loss.ignoreIndex, " (ignored)")
                              : std::string(),
                          label == loss.classes ? "; classes count from 0" : "",
                          canIgnore(loss, label)
                              ? cat("; ignore_index=", label,
                                    " in the loss leaves such labels out")
                              : std::string()));
        }
      }
    }
    if (!anyCounts && samples.count > 0 && loss.hasClasses())
      throw Error(KERF_INVALID_ARGUMENT,
                  cat(path, ": no label counts: all of \"", column.name,
                      "\" are ", loss.ignoreIndex, " (ignore_index)"));
  }
}
