//===- Batches.h - shuffled batches, assembled ahead of time ----*- C++ -*-===//
//
// Step 1 of an iteration. The order of samples depends on seed and epoch alone,
// so every mesh sees the same batches and a run that is resumed in the middle
// of an epoch goes on where it stopped. A thread assembles the next batch while
// a step runs on the one before; memory is two batches.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_BATCHES_H
#define KERF_RT_TRAIN_BATCHES_H

#include "Data.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace kerf::rt {

/// The numbers 0 .. count-1 in the order of an epoch: Fisher and Yates with
/// draws that are pure functions of (seed, epoch, position).
std::vector<int64_t> shuffledOrder(int64_t count, uint64_t seed, int64_t epoch);

struct BatchOptions {
  int64_t batch = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  /// Fill the last batch of an epoch up with samples whose labels are
  /// `ignoreIndex`, instead of dropping it.
  bool padLast = false;
  int64_t ignoreIndex = -100;
  bool ignores = true; ///< ignoreIndex is no label out of range
  /// Labels (other than ignoreIndex) must be in [0, classes); 0: anything.
  int64_t classes = 0;
};

struct Batch {
  std::vector<std::vector<char>> tensors; ///< as the columns
  std::vector<int64_t> samples;           ///< without padding
  int64_t epoch = 0, index = 0;           ///< in its epoch
  int64_t badSample = -1, badLabel = 0;   ///< a label that is out of range
};

/// Where a run stands: the next batch to give out.
struct BatchPosition {
  int64_t epoch = 0, index = 0;
};

class BatchLoader {
public:
  /// Starts the thread at `start`. `samples.count` must fill a batch unless
  /// padLast is set.
  BatchLoader(Samples samples, const BatchOptions &options,
              BatchPosition start = {});
  ~BatchLoader();

  /// The next batch; the one before is gone. Epochs follow each other forever.
  const Batch &next();

  int64_t batchesPerEpoch() const { return perEpoch; }

  /// Assembles one batch of an epoch whose order is given. Pure.
  static void assemble(const Samples &samples, const BatchOptions &options,
                       const std::vector<int64_t> &order, int64_t index,
                       Batch &batch);

private:
  void work();
  /// The next batch into its slot.
  void make();

  Samples samples;
  BatchOptions options;
  int64_t perEpoch;
  BatchPosition position; ///< of the thread
  std::vector<int64_t> order;
  int64_t orderEpoch = -1;
  Batch slots[2];
  std::mutex mutex;
  std::condition_variable changed;
  int64_t made = 0, taken = 0; ///< batches
  bool closing = false;
  std::exception_ptr failure; ///< of the thread
  std::thread thread;
};

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_BATCHES_H
