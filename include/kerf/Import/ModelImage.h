//===- ModelImage.h - a model's file with more initializers -----*- C++ -*-===//
#ifndef KERF_IMPORT_MODELIMAGE_H
#define KERF_IMPORT_MODELIMAGE_H

#include "kerf/Import/Import.h"

#include <map>
#include <string>
#include <vector>

namespace kerf {

/// A file as ranges of another one with bytes between them.
struct ModelImage {
  struct Piece {
    uint64_t begin = 0, length = 0; ///< of the original; length 0: `bytes`
    std::string bytes;
  };
  std::vector<Piece> pieces;
  /// Where the content of each copy begins in the new file.
  std::map<std::string, uint64_t> copies;
};

/// The file `path` in which each of `copies` is an initializer of its own,
/// which the node that it names reads. Empty pieces if there are no copies.
/// On failure false and `error`: the file is none that was imported.
bool makeModelImage(llvm::StringRef path, const std::vector<UntiedCopy> &copies,
                    ModelImage &image, std::string &error);

} // namespace kerf

#endif // KERF_IMPORT_MODELIMAGE_H
