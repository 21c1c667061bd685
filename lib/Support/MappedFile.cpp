//===- MappedFile.cpp - open and map, with path checks --------------------===//
//
// Below a directory each component is opened with O_NOFOLLOW relative to the
// one before. This gives the guarantees of openat2's RESOLVE_BENEATH |
// RESOLVE_NO_SYMLINKS without races, also on kernels and in sandboxes that lack
// that call.
//
//===----------------------------------------------------------------------===//
#include "kerf/Support/MappedFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf;
using namespace llvm;

static std::string absolute(StringRef path) {
  SmallString<256> result(path);
  sys::fs::make_absolute(result);
  sys::path::remove_dots(result, /*remove_dot_dot=*/false);
  return std::string(result);
}

std::unique_ptr<MappedFile> MappedFile::map(int descriptor, StringRef path,
                                            bool refuseHardLinks,
                                            std::string &error) {
  std::unique_ptr<MappedFile> file(new MappedFile());
  struct stat status;
  if (::fstat(descriptor, &status) != 0)
    error = std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    error = "not a regular file";
  else if (refuseHardLinks && status.st_nlink > 1)
    error = "file has " + std::to_string(status.st_nlink) +
            " hard links, expected 1";
  if (error.empty() && status.st_size > 0) {
    file->size = static_cast<size_t>(status.st_size);
    void *address =
        ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED)
      error = std::strerror(errno);
    else
      file->data = static_cast<const uint8_t *>(address);
  }
  ::close(descriptor);
  if (!error.empty())
    return nullptr;
  file->absolutePath = absolute(path);
  return file;
}

std::unique_ptr<MappedFile> MappedFile::open(StringRef path,
                                             std::string &error) {
  error.clear();
  // Not blocking: a FIFO opens at once and is then refused.
  int descriptor =
      ::open(path.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    error = std::strerror(errno);
    return nullptr;
  }
  return map(descriptor, path, /*refuseHardLinks=*/false, error);
}

std::unique_ptr<MappedFile> MappedFile::openBeneath(StringRef directory,
                                                    StringRef relative,
                                                    std::string &error,
                                                    bool absentIsFine) {
  error.clear();
  if (relative.empty())
    error = "empty path";
  else if (relative.contains('\0'))
    error = "path holds a zero byte";
  else if (relative.starts_with("/") || relative.starts_with("\\"))
    error = "path is absolute, expected one beneath the model's folder";
  SmallVector<StringRef> parts;
  relative.split(parts, '/', -1, /*KeepEmpty=*/false);
  if (error.empty() && parts.empty())
    error = "empty path";
  for (StringRef part : parts)
    if (part == "..")
      error = "path leaves the model's folder with \"..\"";
  if (!error.empty())
    return nullptr;

  std::string folder = directory.empty() ? "." : directory.str();
  int current = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (auto [index, part] : llvm::enumerate(parts)) {
    if (current < 0)
      break;
    bool leaf = index + 1 == parts.size();
    int flags =
        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (leaf ? O_NONBLOCK : O_DIRECTORY);
    int next = ::openat(current, part.str().c_str(), flags);
    int saved = errno;
    ::close(current);
    errno = saved;
    current = next;
  }
  if (current < 0 && errno == ENOENT && absentIsFine) {
    std::unique_ptr<MappedFile> file(new MappedFile());
    SmallString<256> path(folder);
    sys::path::append(path, relative);
    file->absolutePath = path.str().str();
    file->absent = true;
    return file;
  }
  if (current < 0) {
    error = errno == ELOOP ? "path goes through a symbolic link, expected the "
                             "file itself (cp -L copies what a link names)"
            : errno == ENOTDIR ? "path goes through a symbolic link or a file"
                               : std::strerror(errno);
    return nullptr;
  }
  SmallString<256> path(folder);
  sys::path::append(path, relative);
  return map(current, path, /*refuseHardLinks=*/true, error);
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<uint8_t *>(data), size);
}
