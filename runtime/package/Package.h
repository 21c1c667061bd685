//===- Package.h - an opened package ----------------------------*- C++ -*-===//
//
// Manifest, mapped weights and loaded program of one NAME.kerf folder, shared
// by all sessions and ranks; immutable once opened.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_PACKAGE_H
#define KERF_RUNTIME_PACKAGE_PACKAGE_H

#include "Manifest.h"
#include "Safetensors.h"
#include "Sizes.h"
#include "kerf/rt/program.h"

#include <memory>

namespace kerf::rt {

/// A parameter's tensor as it lies in a mapped file.
struct StoredTensor {
  Shape shape;
  const char *data = nullptr; ///< null: splat or derived
};

struct Package {
  std::string path;
  Manifest manifest;
  std::vector<StoredTensor> stored;               ///< as manifest.parameters
  std::vector<kerf_program_function_t> functions; ///< as manifest.functions
  Sizes sizes; ///< of the package's own program; none of the others

  /// Maps and checks everything. `skipHashes`: compare sizes only. `program`:
  /// that of NAME.json, beside that of manifest.json, on the same weights.
  static std::shared_ptr<Package> open(const std::string &path, bool skipHashes,
                                       const std::string &program = "manifest");
  /// Whether the folder has such a program.
  bool hasProgram(const std::string &program) const;
  ~Package();

private:
  bool lists(const std::string &file) const;
  void checkFiles(bool skipHashes);
  void checkParameters();
  void readSizes();
  void loadProgram();
  void *program = nullptr;
  Safetensors weights;
  std::shared_ptr<MappedFile> weightsFile;
  std::vector<std::shared_ptr<MappedFile>> externalFiles;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_PACKAGE_H
