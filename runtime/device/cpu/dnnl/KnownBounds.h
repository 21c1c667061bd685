//===- KnownBounds.h - how large numbers in memory can be -------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_KNOWNBOUNDS_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_KNOWNBOUNDS_H

#include <cstdint>
#include <vector>

namespace kerf::rt {

/// Bounds on memory that library calls of one rank have written: every number
/// in it is finite and at most the bound. If anything else may have written,
/// all bounds are dropped. A handful of entries.
class KnownBounds {
public:
  /// Drops all bounds: something else may have written.
  void forget() { entries.clear(); }

  /// A call has written [data, data + bytes); a bound that is not finite means
  /// that nothing is known.
  void written(const void *data, int64_t bytes, double bound) {
    auto begin = reinterpret_cast<uintptr_t>(data);
    uintptr_t end = begin + static_cast<uintptr_t>(bytes);
    for (size_t i = entries.size(); i-- > 0;)
      if (entries[i].begin < end && begin < entries[i].end)
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
    if (bound < limit)
      entries.push_back({begin, end, bound});
  }

  /// Infinity where nothing is known.
  double of(const void *data, int64_t bytes) const {
    auto begin = reinterpret_cast<uintptr_t>(data);
    uintptr_t end = begin + static_cast<uintptr_t>(bytes);
    for (const Entry &entry : entries)
      if (entry.begin <= begin && end <= entry.end)
        return entry.bound;
    return __builtin_inf();
  }

  /// Larger bounds are not kept: scanning the numbers gives a smaller one.
  static constexpr double limit = 1e30;

private:
  struct Entry {
    uintptr_t begin, end;
    double bound;
  };
  std::vector<Entry> entries;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_KNOWNBOUNDS_H
