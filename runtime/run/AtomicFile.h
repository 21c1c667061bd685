//===- AtomicFile.h - a file that is replaced by renaming -------*- C++ -*-===//
//
// A reader sees the old file or the complete new one, and a failure leaves
// nothing behind: until commit() the content is in a temporary file beside the
// path, which the destructor removes. Streamed: weights need not be in memory
// at once.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_RUN_ATOMICFILE_H
#define KERF_RT_RUN_ATOMICFILE_H

#include <cstdint>
#include <string>

namespace kerf::rt {

class AtomicFile {
public:
  /// Throws KERF_IO_ERROR naming `path`, as everything here; also if something
  /// other than a file is there, which the rename would replace.
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

/// Empty if a file can be made or replaced at `path`, judging by what exists
/// there; else why not, as in "is no regular file".
std::string whyNoFile(const std::string &path);

/// Why a file or folder cannot be made at `path`, of what the system says
/// (errno): the first folder on the way there that does not exist is named.
std::string whyFailed(const std::string &path, int code);

/// The folder of a path, "." for a plain name.
std::string folderOf(const std::string &path);

} // namespace kerf::rt

#endif // KERF_RT_RUN_ATOMICFILE_H
