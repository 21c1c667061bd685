//===- AtomicFile.cpp - a file that is replaced by renaming ---------------===//
#include "AtomicFile.h"

#include "../base/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

std::string kerf::rt::folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string kerf::rt::whyNoFile(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode))
    return "";
  return S_ISDIR(info.st_mode) ? "is a folder" : "is no regular file";
}

std::string kerf::rt::whyFailed(const std::string &path, int code) {
  std::string missing;
  struct stat info;
  for (std::string at = folderOf(path);
       code == ENOENT && at != missing && ::stat(at.c_str(), &info) != 0;
       at = folderOf(at))
    missing = at;
  if (!missing.empty())
    return "the folder \"" + missing + "\" does not exist";
  // Of a file system that makes its files itself, as /proc does.
  if (code == ENOENT && ::stat(path.c_str(), &info) != 0)
    return "the folder \"" + folderOf(path) + "\" takes no new files";
  return std::strerror(code);
}

void AtomicFile::fail(const char *what) const {
  throw Error(KERF_IO_ERROR,
              path + ": " + what + ": " + whyFailed(path, errno));
}

AtomicFile::AtomicFile(const std::string &place)
    : path(place), temporary(place + ".tmp" + std::to_string(::getpid())) {
  if (std::string why = whyNoFile(path); !why.empty()) {
    temporary.clear();
    throw Error(KERF_IO_ERROR, path + ": " + why);
  }
  fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    fail("cannot write");
}

AtomicFile::~AtomicFile() {
  if (fd >= 0)
    ::close(fd);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

void AtomicFile::write(const void *data, size_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::write(fd, at, std::min<size_t>(bytes, 1 << 30));
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      fail("cannot write");
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::writeAt(uint64_t offset, const void *data, size_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::pwrite(fd, at, std::min<size_t>(bytes, 1 << 30),
                               static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      fail("cannot write");
    at += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::sync() {
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    fail("cannot sync");
  int closed = ::close(fd);
  fd = -1;
  if (closed != 0)
    fail("cannot write");
  synced = true;
}

void AtomicFile::commit() {
  if (!synced)
    sync();
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    fail("cannot write");
  temporary.clear();
  // The name is on the disk when the folder is.
  int folder = ::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}
