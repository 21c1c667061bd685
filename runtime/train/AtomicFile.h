//===- AtomicFile.h - a large file, written aside and renamed ---*- C++ -*-===//
//
// As FileSet, but streamed: weights need not be in memory at once. Until
// commit() the content lies beside the place; destruction removes it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_ATOMICFILE_H
#define KERF_RT_TRAIN_ATOMICFILE_H

#include <cstdint>
#include <string>

namespace kerf::rt {

class AtomicFile {
public:
  /// Throws KERF_IO_ERROR naming `path`, as everything here.
  explicit AtomicFile(const std::string &path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, size_t bytes);
  void writeAt(uint64_t offset, const void *data, size_t bytes);
  /// Content is on the disk.
  void sync();
  /// Renames what was synced, and syncs the folder.
  void commit();

private:
  [[noreturn]] void fail(const char *what) const;
  std::string path, temporary;
  int fd = -1;
  bool synced = false;
};

/// The folder of a path, "." for a plain name.
std::string folderOf(const std::string &path);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_ATOMICFILE_H
