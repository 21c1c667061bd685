//===- WriteFile.h - a file that is whole or not there ----------*- C++ -*-===//
//
// An llvm::raw_fd_ostream that is destroyed with an unchecked error ends the
// process, and a full disk is such an error. All files are written by this
// function, which checks.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_WRITEFILE_H
#define KERF_SUPPORT_WRITEFILE_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace kerf {

/// Writes what `body` prints to a file beside `path` and renames it. An error
/// is "PATH: cannot write: REASON"; `path` is then unchanged.
llvm::Error writeFile(llvm::StringRef path,
                      llvm::function_ref<void(llvm::raw_ostream &)> body);

/// Emits an error of code generation or packaging. isFileError() tells errors
/// of the operating system, such as a full disk, from requests that cannot be
/// fulfilled.
mlir::LogicalResult emitProblem(mlir::Location location, llvm::Error error);
bool isFileError(mlir::Diagnostic &diagnostic);

} // namespace kerf

#endif // KERF_SUPPORT_WRITEFILE_H
