//===- Sizes.h - --dim batch=1..8: a program for each of a few sizes ------===//
#ifndef KERF_TOOLS_KERF_OPTIONS_SIZES_H
#define KERF_TOOLS_KERF_OPTIONS_SIZES_H

#include "../Options.h"

#include "kerf/Pipelines/Compilation.h"

#include <memory>

namespace kerf::tool {

/// --dim=NAME=LOW..HIGH and NAME=A,B,C: notes them as open, and binds their
/// dimensions to the largest size. Throws where the command `takesSizes` not,
/// or a flag beside them is for one size.
void takeSizes(Options &options, bool takesSizes);

/// What a package has besides the program of the largest sizes.
struct OtherSizes {
  std::vector<std::pair<std::string, std::unique_ptr<Compilation>>> programs;
  std::string json; ///< sizes.json
  std::vector<std::string> notes;
};

/// Compiles, up to lowering, the programs of the other sizes, and finds out
/// which sizes between them larger ones take (docs/Package.md, Sizes). Empty
/// without open sizes. Throws.
OtherSizes compileOtherSizes(const Options &options);

} // namespace kerf::tool

#endif // KERF_TOOLS_KERF_OPTIONS_SIZES_H
