//===- Files.h - files that a command reads and writes ----------*- C++ -*-===//
#ifndef KERF_TOOLS_FILES_H
#define KERF_TOOLS_FILES_H

#include "../Options.h"

namespace kerf::tool {

/// What becomes of -o.
/// What a command writes with -o.
enum class OutputKind { Plan, Machine, Model, Package, Other };

/// Throws a Failure if an option names a file to be written that another option
/// names as well, to be read or written, that cannot be written, or that is a
/// file of another kind than what would replace it; or if the command needs
/// temporary files and cannot make any. All commands call it first; in a job
/// only the process that writes.
void checkFiles(const Options &options, OutputKind kind, bool makesTemporary);

/// Throws a Failure unless the model is a file, or where `takesPackages` a
/// package.
void requireModel(const std::string &path, bool takesPackages);

} // namespace kerf::tool

#endif // KERF_TOOLS_FILES_H
