//===- CallEntries.h - calls as entries of manifest.json --------*- C++ -*-===//
//
// Entries of library calls and collectives, and the parts that both have; the
// format is that of docs/Package.md.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PACKAGE_CALLENTRIES_H
#define KERF_LIB_PACKAGE_CALLENTRIES_H

#include "kerf/Exec/Exec.h"

#include "llvm/Support/JSON.h"

namespace kerf {

/// The launch of GPU code; `isKernel`: of a kernel, not of a library call.
llvm::json::Object gpuEntry(exec::GpuKernelAttr gpu, bool isKernel);

/// An entry of `library`.
llvm::json::Object libraryEntry(exec::LibraryCallInterface call);

/// An entry of `collectives`.
llvm::json::Object collectiveEntry(exec::CollectiveOp collective);
llvm::json::Object collectiveEntry(exec::CollectiveStartOp collective);

} // namespace kerf

#endif // KERF_LIB_PACKAGE_CALLENTRIES_H
