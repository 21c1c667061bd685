//===- MappedFile.cpp - a regular file, mapped read-only ------------------===//
//
// open (non-blocking, so that a FIFO cannot hang), fstat, mmap.
//
//===----------------------------------------------------------------------===//
#include "MappedFile.h"

#include "Error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

static std::string hexDigits(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

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

void kerf::rt::forgetMapped(const void *data, size_t bytes) {
  auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(data) + bytes;
  if (bytes != 0)
    ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

std::string MappedFile::hash() const {
  constexpr size_t max = size_t(4) << 20;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t at = 0; at < length; at += max) {
    size_t count = std::min(max, length - at);
    XXH3_64bits_update(&state, bytes + at, count);
    forgetMapped(bytes + at, count);
  }
  return hexDigits(XXH3_64bits_digest(&state));
}

std::string kerf::rt::hashHex(const void *data, size_t bytes) {
  return hexDigits(XXH3_64bits(data, bytes));
}
