//===- MappedFile.h - a file mapped read-only -------------------*- C++ -*-===//
//
// Models may be too large to be in memory twice: files are mapped, and tensors
// in them are referred to by offset and length. Only regular files are opened,
// so that a FIFO or a directory gives an error and never blocks.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_MAPPEDFILE_H
#define KERF_SUPPORT_MAPPEDFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace kerf {

/// Bytes of a file, mapped until the object dies. Read-only; may be shared
/// between threads.
class MappedFile {
public:
  /// Maps the regular file at `path` (symbolic links are followed: the user
  /// named it). Null and a reason in `error` on failure.
  static std::unique_ptr<MappedFile> open(llvm::StringRef path,
                                          std::string &error);

  /// Maps `relative` beneath `directory`, for names that stand in untrusted
  /// files: absolute names, `..`, symbolic links on any component, files with
  /// several hard links and everything that is not a regular file are refused.
  /// With `absentIsFine` a legal name of no file gives an object without bytes.
  static std::unique_ptr<MappedFile> openBeneath(llvm::StringRef directory,
                                                 llvm::StringRef relative,
                                                 std::string &error,
                                                 bool absentIsFine = false);

  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  llvm::ArrayRef<uint8_t> bytes() const { return {data, size}; }
  /// There is no such file (see openBeneath).
  bool isAbsent() const { return absent; }
  /// Absolute path.
  llvm::StringRef path() const { return absolutePath; }

private:
  MappedFile() = default;
  static std::unique_ptr<MappedFile> map(int descriptor, llvm::StringRef path,
                                         bool refuseHardLinks,
                                         std::string &error);
  const uint8_t *data = nullptr;
  size_t size = 0;
  bool absent = false;
  std::string absolutePath;
};

} // namespace kerf

#endif // KERF_SUPPORT_MAPPEDFILE_H
