//===- MappedFile.h - a regular file, mapped read-only ----------*- C++ -*-===//
//
// Only regular files are opened (no FIFO can hang us, no device be read); an
// empty file maps to an empty range. What was read of a mapping counts as this
// process's memory until it is forgotten; then the file is read again.
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

/// Lets go of the pages of part of a mapped file. Any thread may go on reading:
/// they come back from the file.
void forgetMapped(const void *data, size_t bytes);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_MAPPEDFILE_H
