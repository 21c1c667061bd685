//===- InputFile.cpp - bytes as a file ------------------------------------===//
//
// In memory where the system has /dev/shm: a fuzzer writes thousands a second.
//
//===----------------------------------------------------------------------===//
#include "Entries.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace kerf::fuzz;

InputFile::InputFile(const std::string &ending) {
  const char *folder = std::getenv("TMPDIR");
  path = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
         : folder                        ? folder
                                         : "/tmp";
  path += "/kerf-fuzz-XXXXXX" + ending;
  descriptor = ::mkstemps(path.data(), static_cast<int>(ending.size()));
  if (descriptor < 0) {
    std::perror(path.c_str());
    std::abort();
  }
}

InputFile::~InputFile() {
  ::close(descriptor);
  ::unlink(path.c_str());
}

const std::string &InputFile::write(const uint8_t *data, size_t size) {
  // A file of this length: the mapping of a shorter one must end where it does.
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) {
    std::perror(path.c_str());
    std::abort();
  }
  return path;
}
