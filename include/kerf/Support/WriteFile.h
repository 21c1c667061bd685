//===- WriteFile.h - a file that is whole or not there ----------*- C++ -*-===//
//
// llvm::raw_fd_ostream ends the process when it dies with an error that nobody
// has asked for, which a full disk is. Files are written by this function
// alone, which asks.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_WRITEFILE_H
#define KERF_SUPPORT_WRITEFILE_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace kerf {

/// Writes what `body` prints beside `path` and renames it. An error is "PATH:
/// cannot write: REASON"; nothing new is there then.
llvm::Error writeFile(llvm::StringRef path,
                      llvm::function_ref<void(llvm::raw_ostream &)> body);

/// Emits an error of code generation or packaging. One that comes of the
/// operating system, as a full disk, is told from a wish that cannot be granted
/// by isFileError().
mlir::LogicalResult emitProblem(mlir::Location location, llvm::Error error);
bool isFileError(mlir::Diagnostic &diagnostic);

} // namespace kerf

#endif // KERF_SUPPORT_WRITEFILE_H
