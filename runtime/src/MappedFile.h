//===- MappedFile.h - a regular file, mapped read-only ----------*- C++ -*-===//
//
// Only regular files are opened (no FIFO can hang us, no device be read); an
// empty file maps to an empty range.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_SRC_MAPPEDFILE_H
#define KERF_RT_SRC_MAPPEDFILE_H

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

private:
  const char *bytes = nullptr;
  size_t length = 0;
};

/// XXH3-64 as 16 lower-case hex digits.
std::string hashHex(const void *data, size_t bytes);

} // namespace kerf::rt

#endif // KERF_RT_SRC_MAPPEDFILE_H
