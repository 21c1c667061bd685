//===- Parameters.h - each rank's part of the weights -----------*- C++ -*-===//
//
// A part that is contiguous and aligned in the mapped file is used in place;
// any other is copied once, zero-filled past the end of the tensor, and shared
// by all ranks that need it, as long as one of them holds it. The file's pages
// behind a copy are released at once, so that no weight is in memory twice.
// Thread-safe; keeps the package alive.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_PARAMETERS_H
#define KERF_RUNTIME_EXECUTION_PARAMETERS_H

#include "../device/Device.h"
#include "../package/Package.h"

#include <atomic>
#include <map>
#include <mutex>

namespace kerf::rt {

class ParameterStore {
public:
  /// `given[i]`, where there is one and it is not null, holds the stored
  /// tensor of parameter i instead of the package's files. It is needed until
  /// release().
  explicit ParameterStore(std::shared_ptr<const Package> package,
                          std::vector<const char *> given = {})
      : package(std::move(package)), given(std::move(given)) {}

  /// Part of parameter `index` that `rank` holds; `device` allocates copies.
  /// Mutable parameters are copied for every rank.
  ParameterView get(int64_t index, int64_t rank, Device &device);

  /// Fills a rank's part of a splat.
  static void fillSplat(const Parameter &p, void *data);

  /// A part from `get` was packed: releases the file's pages behind it.
  void forget(int64_t index);

  /// Memory of derived parameters, by index.
  using Derived = std::map<int64_t, std::shared_ptr<DeviceMemory>>;
  /// The derived parameters of ranks with this signature, computed by the first
  /// rank that asks, and again after ranks have released some (packed them);
  /// the others wait. If computing throws, nothing is kept.
  Derived derived(const std::string &signature,
                  const std::function<Derived()> &compute);

  /// Bytes of parts that had to be copied so far.
  int64_t copiedBytes();
  /// All ranks are loaded: from now on only they keep parts alive.
  void release();

private:
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<DeviceMemory> memory; ///< the ranks hold it
  };
  /// Where a part lies in the stored tensor.
  struct Source {
    const char *data; ///< null: splat
    Shape stored, starts, sizes;
  };
  Source find(int64_t index, int64_t rank) const;
  std::shared_ptr<DeviceMemory> copy(int64_t index, const Source &source,
                                     Device &device);

  std::shared_ptr<const Package> package;
  std::vector<const char *> given;
  std::atomic<int64_t> copied{0};
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Entry>> entries;
  struct DerivedEntry {
    std::mutex mutex;
    std::map<int64_t, std::weak_ptr<DeviceMemory>> derived;
  };
  std::map<std::string, std::shared_ptr<DerivedEntry>> derivedEntries;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_PARAMETERS_H
