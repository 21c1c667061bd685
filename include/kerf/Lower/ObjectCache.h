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

} // namespace kerf

#endif // KERF_LOWER_OBJECTCACHE_H
