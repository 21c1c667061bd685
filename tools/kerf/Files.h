//===- Files.h - what a command reads and writes ----------------*- C++ -*-===//
#ifndef KERF_TOOLS_FILES_H
#define KERF_TOOLS_FILES_H

#include "Options.h"

namespace kerf::tool {

/// What becomes of -o.
enum class OutputKind { File, Package };

/// Throws a Failure if a file that the options name to be written is one that
/// they name to be read, or another one that is written, or cannot be written;
/// also if no temporary files can be made where the command makes any. Called
/// by all commands before they do anything; in a job by the process that
/// writes.
void checkFiles(const Options &options, OutputKind kind, bool makesTemporary);

} // namespace kerf::tool

#endif // KERF_TOOLS_FILES_H
