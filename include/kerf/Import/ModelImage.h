//===- ModelImage.h - a model's file with more initializers -----*- C++ -*-===//
#ifndef KERF_IMPORT_MODELIMAGE_H
#define KERF_IMPORT_MODELIMAGE_H

#include "kerf/Import/Import.h"

#include <map>
#include <string>
#include <vector>

namespace kerf {

/// A new file as ranges of an original one, with new bytes between them.
struct ModelImage {
  struct Piece {
    uint64_t begin = 0, length = 0; ///< of the original; length 0: `bytes`
    std::string bytes;
  };
  std::vector<Piece> pieces;
  /// The offset of the content of each copy in the new file.
  std::map<std::string, uint64_t> copies;
};

/// Edits of a model's file.
struct ModelEdits {
  /// Each becomes an initializer, which the node that it names reads.
  std::vector<UntiedCopy> copies;
  /// What these nodes have read is no initializer any more.
  std::vector<JoinedRead> joined;
  /// New names for files of external data, by their names in the model.
  std::map<std::string, std::string> locations;

  bool empty() const {
    return copies.empty() && joined.empty() && locations.empty();
  }
};

/// The file `path` with the edits; no pieces if there are no edits. On failure
/// false and `error`: the file is not the one that was imported.
bool makeModelImage(llvm::StringRef path, const ModelEdits &edits,
                    ModelImage &image, std::string &error);

/// Facts about a model's file that need no import.
struct ModelFacts {
  std::vector<ModelValue> inputs;   ///< without those that have initializers
  std::vector<std::string> outputs; ///< in their order
  std::vector<std::string>
      locations; ///< of external data, as the file has them

  std::vector<std::string> inputNames() const {
    std::vector<std::string> names;
    for (const ModelValue &value : inputs)
      names.push_back(value.name);
    return names;
  }
};

/// On failure false and `error`: the file cannot be read, or is no model.
bool readModelFacts(llvm::StringRef path, ModelFacts &facts,
                    std::string &error);

} // namespace kerf

#endif // KERF_IMPORT_MODELIMAGE_H
