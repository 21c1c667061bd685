//===- Batches.cpp - shuffled batches, assembled ahead of time ------------===//
#include "Batches.h"

#include "../base/Splitmix.h"

#include <cstring>
#include <numeric>

using namespace kerf::rt;

// The high half of draw * bound is uniform over [0, bound) if draws whose low
// half is below 2^64 mod bound are rejected and drawn again (Lemire, "Fast
// Random Integer Generation in an Interval", 2019).
static uint64_t drawBelow(uint64_t key, uint64_t position, uint64_t bound) {
  for (uint64_t attempt = 0;; ++attempt) {
    uint64_t draw = splitmix(splitmix(key ^ position) + attempt);
    auto product = static_cast<unsigned __int128>(draw) * bound;
    if (static_cast<uint64_t>(product) >= (0 - bound) % bound)
      return static_cast<uint64_t>(product >> 64);
  }
}

std::vector<int64_t> kerf::rt::shuffledOrder(int64_t count, uint64_t seed,
                                             int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // One stream per use of the seed; this one is called "shuffle".
  uint64_t key = splitmix(seed);
  for (char c : {'s', 'h', 'u', 'f', 'f', 'l', 'e'})
    key = splitmix(key ^ static_cast<unsigned char>(c));
  key = splitmix(key + static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[drawBelow(key, i, i)]);
  return order;
}

BatchLoader::BatchLoader(Samples given, const BatchOptions &options,
                         BatchPosition start)
    : samples(std::move(given)), options(options),
      perEpoch(options.padLast ? ceilDiv(samples.count, options.batch)
                               : samples.count / options.batch),
      position(start) {
  if (perEpoch < 1 || options.batch < 1)
    throw Error(
        KERF_INVALID_ARGUMENT,
        cat("has ", samples.count, " samples, a batch needs ", options.batch));
  if (start.index < 0 || start.index >= perEpoch)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("batch ", start.index, " of an epoch of ", perEpoch));
  thread = std::thread([this] { work(); });
}

BatchLoader::~BatchLoader() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    closing = true;
  }
  changed.notify_all();
  thread.join();
}

// A label as a number; other types than integers have no range.
static bool readLabel(const Column &column, const char *at, int64_t &value) {
  if (column.dtype == KERF_I64) {
    std::memcpy(&value, at, 8);
    return true;
  }
  if (column.dtype == KERF_I32) {
    int32_t narrow;
    std::memcpy(&narrow, at, 4);
    value = narrow;
    return true;
  }
  return false;
}

static void writeIgnored(const Column &column, int64_t ignore, char *to) {
  for (int64_t i = 0; i < column.elements; ++i)
    if (column.dtype == KERF_I64) {
      std::memcpy(to + i * 8, &ignore, 8);
    } else if (column.dtype == KERF_I32) {
      int32_t narrow = static_cast<int32_t>(ignore);
      std::memcpy(to + i * 4, &narrow, 4);
    }
}

void BatchLoader::assemble(const Samples &samples, const BatchOptions &options,
                           const std::vector<int64_t> &order, int64_t index,
                           Batch &batch) {
  int64_t begin = index * options.batch;
  int64_t end = std::min(begin + options.batch, samples.count);
  batch.samples.assign(order.begin() + begin, order.begin() + end);
  batch.tensors.resize(samples.columns.size());
  batch.badSample = -1;
  for (size_t c = 0; c < samples.columns.size(); ++c) {
    const Column &column = samples.columns[c];
    int64_t bytes = column.sampleBytes(), element = dtypeSize(column.dtype);
    if (column.isShared) {
      batch.tensors[c].resize(static_cast<size_t>(bytes));
      column.read(0, batch.tensors[c].data());
      continue;
    }
    batch.tensors[c].resize(static_cast<size_t>(bytes * options.batch));
    for (int64_t i = 0; i < options.batch; ++i) {
      char *to = batch.tensors[c].data() + i * bytes;
      bool padding = i >= end - begin;
      column.read(order[begin + (padding ? i % (end - begin) : i)], to);
      if (padding && column.isLabels)
        writeIgnored(column, options.ignoreIndex, to);
      if (!column.isLabels || options.classes <= 0 || batch.badSample >= 0)
        continue;
      int64_t label = 0;
      for (int64_t e = 0; e < column.elements; ++e)
        if (readLabel(column, to + e * element, label) &&
            !(options.ignores && label == options.ignoreIndex) &&
            (label < 0 || label >= options.classes)) {
          batch.badSample = order[begin + i];
          batch.badLabel = label;
          break;
        }
    }
  }
}

void BatchLoader::work() {
  for (;;) {
    {
      // The slot of the batch that is in use is not free.
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return closing || made - taken < 1; });
      if (closing)
        return;
    }
    try {
      make();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
      changed.notify_all();
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      ++made;
    }
    changed.notify_all();
  }
}

void BatchLoader::make() {
  if (orderEpoch != position.epoch) {
    if (options.shuffle) {
      order = shuffledOrder(samples.count, options.seed, position.epoch);
    } else {
      order.resize(static_cast<size_t>(samples.count));
      std::iota(order.begin(), order.end(), 0);
    }
    orderEpoch = position.epoch;
  }
  Batch &batch = slots[made % 2];
  batch.epoch = position.epoch;
  batch.index = position.index;
  assemble(samples, options, order, position.index, batch);
  if (++position.index == perEpoch)
    position = {position.epoch + 1, 0};
}

const Batch &BatchLoader::next() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return made > taken || failure; });
  if (made == taken)
    std::rethrow_exception(failure);
  const Batch &batch = slots[taken % 2];
  ++taken;
  lock.unlock();
  changed.notify_all();
  return batch;
}
