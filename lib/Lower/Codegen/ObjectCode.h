//===- ObjectCode.h - LLVM modules to shared objects ------------*- C++ -*-===//
//
// The part of code generation that uses LLVM's back end and the linker and does
// not deal with tensors: a target, a module to an object file, objects to
// program.so. The bytes depend on the inputs and the target alone.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_OBJECTCODE_H
#define KERF_LOWER_CODEGEN_OBJECTCODE_H

#include "KernelEmitter.h"

#include "kerf/Lower/Codegen.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace kerf::codegen {

/// A CPU, resolved.
struct Target {
  std::string cpu, features;
  TargetInfo info;
  VectorTarget vectors;
  std::unique_ptr<llvm::TargetMachine> makeMachine() const;
};

llvm::Expected<Target> resolve(llvm::StringRef cpu);

/// Compiles the module, with optimisation if `optimise`, else in linear time.
/// With `dumpDir`, writes NAME.ll and NAME.s there. Safe in parallel for
/// modules of different contexts.
llvm::Expected<llvm::SmallString<0>> compileModule(llvm::Module &module,
                                                   const Target &target,
                                                   llvm::StringRef dumpDir,
                                                   bool optimise = true);

/// Links the objects, in order; an undefined symbol is an error.
llvm::Expected<std::string>
linkShared(llvm::ArrayRef<llvm::SmallString<0>> objects);

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_OBJECTCODE_H
