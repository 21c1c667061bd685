//===- AlgorithmCache.h - results of measurements, on disk ------*- C++ -*-===//
//
// Which of several algorithms is fastest depends on the GPU and the library's
// version. Measuring takes a moment at the first load, so results are kept in
// one small text file per GPU and library below $KERF_CUDA_CACHE,
// $XDG_CACHE_HOME/kerf or ~/.cache/kerf. Lines are "KEY = BYTES in hex". A file
// that cannot be read or written is no error. Files are replaced by renaming,
// so several processes may write at once.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_MATMUL_ALGORITHMCACHE_H
#define KERF_RUNTIME_DEVICE_CUDA_MATMUL_ALGORITHMCACHE_H

#include <map>
#include <string>

namespace kerf::rt {

class AlgorithmCache {
public:
  /// `folder` empty: as above; "none": nothing is kept.
  AlgorithmCache(const std::string &library, const std::string &gpu,
                 const std::string &folder = "");
  ~AlgorithmCache() { save(); }
  AlgorithmCache(const AlgorithmCache &) = delete;
  AlgorithmCache &operator=(const AlgorithmCache &) = delete;

  /// Empty: not known.
  std::string find(const std::string &key) const;
  void set(const std::string &key, const std::string &bytes);
  void save();
  const std::string &path() const { return file; }

private:
  void read(std::map<std::string, std::string> &into) const;
  std::string file; ///< empty: nothing is kept
  std::map<std::string, std::string> entries;
  bool changed = false;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_MATMUL_ALGORITHMCACHE_H
