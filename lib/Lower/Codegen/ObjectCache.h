//===- ObjectCache.h - objects of kernels that were compiled --*- C++ -*-===//
//
// Problem: most of the time of a compilation goes into kernels that another
// compilation has compiled: of the same model on another mesh, of the next run
// of a script.
//
// Idea: an object follows from the module before it is optimised, from the
// target and from the compiler. It is kept in a folder under the hash of these
// (128 bits), with a checksum behind its bytes. Whatever is wrong with the
// folder or a file in it costs a compilation and nothing else.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_OBJECTCACHE_H
#define KERF_LOWER_CODEGEN_OBJECTCACHE_H

#include "ObjectCode.h"

namespace kerf::codegen {

class ObjectCache {
public:
  ObjectCache(const ObjectCacheOptions &options, const Target &target);

  /// compileModule(module, target, "", optimise), or what is kept of it. Safe
  /// in parallel for modules of different contexts.
  llvm::Expected<llvm::SmallString<0>> compile(llvm::Module &module,
                                               bool optimise);

private:
  std::string pathFor(const llvm::Module &module, bool optimise) const;

  const ObjectCacheOptions &options;
  const Target &target;
};

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_OBJECTCACHE_H
