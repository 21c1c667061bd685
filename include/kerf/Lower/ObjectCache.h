//===- ObjectCache.h - compiled kernels that are kept -----------*- C++ -*-===//
#ifndef KERF_LOWER_OBJECTCACHE_H
#define KERF_LOWER_OBJECTCACHE_H

#include <string>

namespace kerf {

/// Where objects of kernels are kept from one compilation to the next.
struct ObjectCacheOptions {
  /// Empty: nowhere. Made where it is not there; may be shared by processes.
  std::string folder;
  /// What tells this compiler from others that share the folder: whatever it
  /// does to a module before LLVM's object is part of what is kept.
  std::string compiler;
};

/// Removes files of the folder, those first that were not used for the longest
/// time, until they are at most 256 MiB and 20,000 files that were used in the
/// last 30 days. For the end of a command, since it may take a while; looks
/// again 20 minutes after it last did.
void pruneObjectCache(const ObjectCacheOptions &options);

} // namespace kerf

#endif // KERF_LOWER_OBJECTCACHE_H
