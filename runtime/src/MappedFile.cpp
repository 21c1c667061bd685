//===- MappedFile.cpp - a regular file, mapped read-only ------------------===//
//
// open (non-blocking, so that a FIFO cannot hang), fstat, mmap.
//
//===----------------------------------------------------------------------===//
#include "MappedFile.h"

#include "Error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

MappedFile::MappedFile(const std::string &path) {
  auto failed = [&](const char *what) {
    return Error(KERF_IO_ERROR,
                 cat(path, ": ", what, ": ", std::strerror(errno)));
  };
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    throw failed("cannot open");
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error(KERF_IO_ERROR, path + ": not a regular file");
  }
  length = static_cast<size_t>(info.st_size);
  if (length != 0) {
    void *address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      Error error = failed("cannot map");
      ::close(fd);
      throw error;
    }
    bytes = static_cast<const char *>(address);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (bytes)
    ::munmap(const_cast<char *>(bytes), length);
}

std::string kerf::rt::hashHex(const void *data, size_t bytes) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(data, bytes)));
  return text;
}
