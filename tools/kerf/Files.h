//===- Files.h - files that a command reads and writes ----------*- C++ -*-===//
#ifndef KERF_TOOLS_FILES_H
#define KERF_TOOLS_FILES_H

#include "Options.h"

namespace kerf::tool {

/// What becomes of -o.
enum class OutputKind { File, Package };

/// Throws a Failure if an option names a file to be written that another option
/// names as well, to be read or written, or that cannot be written; or if the
/// command needs temporary files and cannot make any. All commands call it
/// first; in a job only the process that writes.
void checkFiles(const Options &options, OutputKind kind, bool makesTemporary);

/// Throws a Failure unless the model is a file, or where `takesPackages` a
/// package.
void requireModel(const std::string &path, bool takesPackages);

} // namespace kerf::tool

#endif // KERF_TOOLS_FILES_H
