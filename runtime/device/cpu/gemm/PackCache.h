//===- PackCache.h - packed weights, shared by ranks ------------*- C++ -*-===//
//
// Data-parallel ranks need the same weights in the same layout: the first that
// asks packs them, the others wait for it and share the bytes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CPU_GEMM_PACKCACHE_H
#define KERF_RUNTIME_DEVICE_CPU_GEMM_PACKCACHE_H

#include "../../Device.h"

#include <map>
#include <mutex>
#include <string>

namespace kerf::rt {

class CpuPackCache : public PackCache {
public:
  using Bytes = std::shared_ptr<DeviceMemory>;
  /// The entry of `key`, made by `pack` on first use.
  template <typename Pack> Bytes get(const std::string &key, Pack &&pack) {
    std::shared_ptr<Entry> entry;
    {
      std::lock_guard<std::mutex> lock(mutex);
      std::shared_ptr<Entry> &place = entries[key];
      if (!place)
        place = std::make_shared<Entry>();
      entry = place;
    }
    std::lock_guard<std::mutex> lock(entry->mutex);
    if (!entry->bytes)
      entry->bytes = pack();
    return entry->bytes;
  }

private:
  struct Entry {
    std::mutex mutex;
    Bytes bytes;
  };
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Entry>> entries;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_GEMM_PACKCACHE_H
