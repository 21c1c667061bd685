//===- Sizes.h - sizes.json: programs for several sizes ---------*- C++ -*-===//
//
// Problem: compiled programs have fixed sizes, and what comes has others.
//
// Idea: a package has a program for each of a few sizes of a dimension (all
// combinations, where several are open). Of a wanted size the smallest program
// with at least as many is taken; what is more is filled up, where it was shown
// at compilation that nothing of that is seen (docs/Package.md, Sizes).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_SIZES_H
#define KERF_RUNTIME_PACKAGE_SIZES_H

#include "Manifest.h"

#include <string>
#include <vector>

namespace kerf::rt {

/// A dimension of inputs of which a package takes several sizes.
struct OpenDim {
  std::string name;
  /// By input and by output: which of its axes has this size, or a multiple of
  /// it; -1: none.
  std::vector<int32_t> inputAxes, outputAxes;
  std::vector<int64_t> sizes;  ///< of programs, ascending
  std::vector<int64_t> padded; ///< that the next larger one takes as well

  /// The size whose program takes `size`; 0: none does.
  int64_t sizeFor(int64_t size) const;
  /// "1 to 8, 16", for messages.
  std::string text() const;
};

struct Sizes {
  struct Program {
    std::string name;           ///< empty: that of manifest.json
    std::vector<int64_t> sizes; ///< by dimension
  };
  std::vector<OpenDim> dims; ///< none: the package has one program
  std::vector<Program> programs;

  /// The program for a size of each dimension. KERF_INVALID_ARGUMENT names
  /// those that fit.
  const Program &programFor(const std::vector<int64_t> &wanted) const;
};

/// Parses sizes.json against the manifest beside it. Throws KERF_BAD_PACKAGE
/// that names the entry, or KERF_OTHER_VERSION.
Sizes parseSizes(const char *text, size_t bytes, const Manifest &manifest);

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_SIZES_H
