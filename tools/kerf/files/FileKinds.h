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

inline constexpr const char *kOnnxModel = "an ONNX model";
inline constexpr const char *kPlan = "a plan";
inline constexpr const char *kMachine = "a machine file";
inline constexpr const char *kRunReport = "the report of a run";
inline constexpr const char *kSafetensors = "a safetensors file";
inline constexpr const char *kArray = "a NumPy array";
inline constexpr const char *kArchive = "an archive (.npz, .pt)";

/// What a file is: one of the names above, "a package", "a folder", or the
/// schema of a document of Kerf's. Empty: unknown, or it cannot be read.
std::string fileKind(const std::string &path);

/// Throws a Failure if `flag` would replace a file of another kind than `kind`,
/// by its content or by an ending that no file of Kerf's has (.py). `kind`:
/// what is going to be written; empty: a kind that fileKind() does not know.
void requireReplaceable(const std::string &flag, const std::string &path,
                        const std::string &kind);

/// Throws a Failure if --plan names something else.
void requirePlan(const std::string &path);

/// Throws a Failure if --machine names something else than a machine file or
/// one of the machines that are known by name.
void requireMachine(const std::string &nameOrPath);

} // namespace kerf::tool

#endif // KERF_TOOLS_FILEKINDS_H
