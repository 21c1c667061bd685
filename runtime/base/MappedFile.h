//===- MappedFile.h - a regular file, mapped read-only ----------*- C++ -*-===//
//
// Only regular files are opened (no FIFO can block, no device be read); an
// empty file maps to an empty range. Pages that were read count as this
// process's memory until they are forgotten; the next access reads the file
// again.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_MAPPEDFILE_H
#define KERF_RUNTIME_BASE_MAPPEDFILE_H

#include <cstddef>
#include <memory>
#include <string>

namespace kerf::rt {

class MappedFile {
public:
  /// Throws KERF_IO_ERROR.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const char *data() const { return bytes; }
  size_t size() const { return length; }
  /// XXH3-64 of all of it, as 16 lower-case hex digits; forgets what it reads.
  std::string hash() const;

private:
  const char *bytes = nullptr;
  size_t length = 0;
};

/// XXH3-64 as 16 lower-case hex digits.
std::string hashHex(const void *data, size_t bytes);

/// Releases the pages of part of a mapped file. Other threads may keep reading:
/// the pages are then read from the file again.
void forgetMapped(const void *data, size_t bytes);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_MAPPEDFILE_H
