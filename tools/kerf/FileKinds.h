//===- FileKinds.h - what a file is, by its content -------------*- C++ -*-===//
//
// Problem: a file of one kind given where another is asked for fails at its
// first byte or its first key, which says nothing of the slip.
//
// Idea: before that, the file is named by what it is.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_FILEKINDS_H
#define KERF_TOOLS_FILEKINDS_H

#include <string>

namespace kerf::tool {

/// "an ONNX model", "a package", "a folder", "a plan", "a machine file", "the
/// report of a run" or, of what Kerf writes besides, its schema; empty where
/// the file is none of these or cannot be read.
std::string fileKind(const std::string &path);

/// Throws a Failure if --plan names something else.
void requirePlan(const std::string &path);

/// Throws a Failure if --machine names something else than a machine file or
/// one of the machines that are known by name.
void requireMachine(const std::string &nameOrPath);

} // namespace kerf::tool

#endif // KERF_TOOLS_FILEKINDS_H
