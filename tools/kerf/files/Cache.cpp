//===- Cache.cpp - what is kept from one command to the next --------------===//
#include "Cache.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <cstdlib>

using namespace kerf;
using namespace kerf::tool;

std::string kerf::tool::environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string kerf::tool::cacheFolder() {
  llvm::SmallString<128> folder(environment("XDG_CACHE_HOME"));
  // What is not absolute is to be ignored, says the XDG specification.
  if (!llvm::sys::path::is_absolute(folder)) {
    folder = environment("HOME");
    if (!llvm::sys::path::is_absolute(folder))
      return "";
    llvm::sys::path::append(folder, ".cache");
  }
  llvm::sys::path::append(folder, "kerf");
  return folder.str().str();
}

ObjectCacheOptions kerf::tool::kernelCache(const Options &options) {
  ObjectCacheOptions cache;
  if (options.noKernelCache)
    return cache;
  // This build of Kerf and no other: objects follow from its code as well.
  llvm::sys::fs::file_status self;
  if (cacheFolder().empty() || llvm::sys::fs::status("/proc/self/exe", self))
    return cache;
  cache.folder = cacheFolder() + "/kernels";
  cache.compiler =
      llvm::formatv("{0}|{1}|{2}", KERF_VERSION, self.getSize(),
                    self.getLastModificationTime().time_since_epoch().count())
          .str();
  return cache;
}
