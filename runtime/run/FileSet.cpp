//===- FileSet.cpp - files that are never half written --------------------===//
//
// Write beside the place, fsync, rename: a reader sees the old file or the
// whole new one, and a failure leaves nothing behind.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/run.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace kerf::rt;

static bool fail(const std::string &path, const char *what,
                 std::string &error) {
  error = path + ": " + what + ": " + std::strerror(errno);
  return false;
}

bool FileSet::add(const std::string &path, const std::string &content,
                  std::string &error) {
  std::string temporary = path + ".tmp" + std::to_string(::getpid());
  int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return fail(path, "cannot write", error);
  files.emplace_back(temporary, path);
  for (size_t at = 0; at < content.size();) {
    ssize_t written = ::write(fd, content.data() + at, content.size() - at);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      fail(path, "cannot write", error);
      ::close(fd);
      return false;
    }
    at += static_cast<size_t>(written);
  }
  bool synced = ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
  if (!synced)
    fail(path, "cannot sync", error);
  ::close(fd);
  return synced;
}

bool FileSet::commit(std::string &error) {
  while (!files.empty()) {
    auto [temporary, path] = files.back();
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      return fail(path, "cannot write", error);
    files.pop_back();
  }
  return true;
}

FileSet::~FileSet() {
  for (auto &[temporary, path] : files)
    ::unlink(temporary.c_str());
}
