//===- Cache.h - what is kept from one command to the next ------*- C++ -*-===//
#ifndef KERF_TOOLS_CACHE_H
#define KERF_TOOLS_CACHE_H

#include "../Options.h"

#include "kerf/Lower/ObjectCache.h"

namespace kerf::tool {

/// An environment variable; empty if it is not set.
std::string environment(const char *name);

/// The folder of what is kept, as the XDG specification says: kerf in
/// XDG_CACHE_HOME or ~/.cache; empty: there is none.
std::string cacheFolder();

/// Where compiled kernels are kept: in that folder, but for --no-kernel-cache.
ObjectCacheOptions kernelCache(const Options &options);

} // namespace kerf::tool

#endif // KERF_TOOLS_CACHE_H
