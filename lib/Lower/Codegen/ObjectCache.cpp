//===- ObjectCache.cpp - objects of kernels that were compiled ------------===//
#include "ObjectCache.h"

#include "kerf/Support/WriteFile.h"

#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace kerf::codegen {

static uint64_t checksum(StringRef bytes) {
  return xxh3_64bits(arrayRefFromStringRef(bytes));
}

/// The object in the file; none if there is no file or its bytes are not those
/// that were written.
static std::optional<SmallString<0>> read(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return std::nullopt;
  StringRef bytes = (*buffer)->getBuffer();
  if (bytes.size() <= sizeof(uint64_t))
    return std::nullopt;
  StringRef object = bytes.drop_back(sizeof(uint64_t));
  if (support::endian::read64le(object.end()) != checksum(object))
    return std::nullopt;
  return SmallString<0>(object);
}

ObjectCache::ObjectCache(const ObjectCacheOptions &options,
                         const Target &target)
    : options(options), target(target) {}

std::string ObjectCache::pathFor(const Module &module, bool optimise) const {
  SmallString<0> key;
  raw_svector_ostream stream(key);
  WriteBitcodeToFile(module, stream);
  // No part can be taken for the end of the one before it: texts end in 0.
  for (StringRef text :
       {StringRef(target.cpu), StringRef(target.features),
        StringRef(LLVM_VERSION_STRING), StringRef(options.compiler)})
    stream << text << '\0';
  stream << (optimise ? '1' : '0');
  XXH128_hash_t hash = xxh3_128bits(arrayRefFromStringRef(key));
  SmallString<128> path(options.folder);
  // The prefix of files that llvm::pruneCache may remove.
  sys::path::append(path, "llvmcache-" + utohexstr(hash.high64, true, 16) +
                              utohexstr(hash.low64, true, 16));
  return path.str().str();
}

Expected<SmallString<0>> ObjectCache::compile(Module &module, bool optimise) {
  std::string path = pathFor(module, optimise);
  if (auto known = read(path))
    return std::move(*known);
  Expected<SmallString<0>> object =
      compileModule(module, target, /*dumpDir=*/"", optimise);
  if (!object || sys::fs::create_directories(options.folder))
    return object;
  char sum[sizeof(uint64_t)];
  support::endian::write64le(sum, checksum(*object));
  Error error = writeFile(path, [&](raw_ostream &out) {
    out << *object << StringRef(sum, sizeof(sum));
  });
  consumeError(std::move(error));
  return object;
}

} // namespace kerf::codegen

void kerf::pruneObjectCache(const ObjectCacheOptions &options) {
  if (options.folder.empty())
    return;
  CachePruningPolicy policy;
  policy.Expiration = std::chrono::hours(30 * 24);
  policy.MaxSizeBytes = 256 << 20;
  policy.MaxSizeFiles = 20000; // of small kernels many are few bytes
  pruneCache(options.folder, policy);
}
