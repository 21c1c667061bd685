//===- TemporaryFolder.cpp - a folder that goes with the command ----------===//
//
// Also where a signal ends the command: its handler removes the folders and
// sends the signal again, to what was there before. It calls only what a
// handler may call, so the entries of a folder are read by the system call.
//
//===----------------------------------------------------------------------===//
#include "../Setup.h"

#include "kerf/rt/job.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace kerf;
using namespace kerf::tool;

// A signal handler can only reach what is global.
static constexpr std::array endings = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[endings.size()];
static std::array<std::atomic<const char *>, 16> folders = {};
static std::atomic<pid_t> owner = 0;

/// An entry of a folder as the system call getdents64 gives it.
struct Entry {
  uint64_t number;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[1];
};

/// `name` in the open folder `parent`. One entry that cannot be removed ends
/// it.
static bool removeAll(int parent, const char *name, int depth = 0) {
  constexpr int maxDepth = 16;
  int folder = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (folder < 0)
    return ::unlinkat(parent, name, 0) == 0;
  alignas(Entry) char buffer[2048];
  bool isFine = depth < maxDepth;
  // Entries move when others go, so each round begins at the start.
  for (bool isEmpty = false; isFine && !isEmpty;) {
    isEmpty = true;
    ::lseek(folder, 0, SEEK_SET);
    auto bytes = ::syscall(SYS_getdents64, folder, buffer, sizeof(buffer));
    for (decltype(bytes) at = 0; isFine && at < bytes;) {
      const auto *entry = reinterpret_cast<const Entry *>(buffer + at);
      at += entry->length;
      const char *child = buffer + (at - entry->length) + offsetof(Entry, name);
      if (!std::strcmp(child, ".") || !std::strcmp(child, ".."))
        continue;
      isEmpty = false;
      isFine = removeAll(folder, child, depth + 1);
    }
  }
  ::close(folder);
  return ::unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

static void removeFolders(int signal) {
  int saved = errno;
  // A process that was forked off has the folders of another.
  if (::getpid() == owner)
    for (auto &folder : folders)
      if (const char *path = folder.exchange(nullptr))
        removeAll(AT_FDCWD, path);
  for (size_t i = 0; i < endings.size(); ++i)
    if (endings[i] == signal)
      ::sigaction(signal, &before[i], nullptr);
  errno = saved;
  ::raise(signal); // comes once this handler is over
}

/// What is ignored does not end the command. In a job, all processes agree on
/// the end, and the folders go as ever.
static void watchSignals() {
  owner = ::getpid();
  if (rt::insideJob())
    return;
  for (size_t i = 0; i < endings.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = removeFolders;
    ::sigaction(endings[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      ::sigaction(endings[i], &action, nullptr);
  }
}

TemporaryFolder::TemporaryFolder() {
  llvm::SmallString<128> folder;
  static std::once_flag isWatched;
  std::call_once(isWatched, watchSignals);
  if (std::error_code code =
          llvm::sys::fs::createUniqueDirectory("kerf", folder))
    throw Failure{kRunTime,
                  folder.str().str() + ": cannot create: " + code.message(),
                  {}};
  path = folder.str().str();
  for (auto &place : folders) {
    const char *none = nullptr;
    if (place.compare_exchange_strong(none, path.c_str()))
      break;
  }
}

TemporaryFolder::~TemporaryFolder() {
  for (auto &place : folders) {
    const char *own = path.c_str();
    if (place.compare_exchange_strong(own, nullptr))
      break;
  }
  llvm::sys::fs::remove_directories(path);
}

static Outcome packageBeside(const std::string &objects,
                             Compilation &compilation, const std::string &path,
                             llvm::ArrayRef<Compilation::Further> further,
                             const std::string &sizes) {
  const char *given = std::getenv("TMPDIR");
  std::optional<std::string> before =
      given ? std::optional<std::string>(given) : std::nullopt;
  ::setenv("TMPDIR", objects.c_str(), 1);
  Outcome outcome = compilation.runPackage(path, further, sizes);
  if (before)
    ::setenv("TMPDIR", before->c_str(), 1);
  else
    ::unsetenv("TMPDIR");
  return outcome;
}

Outcome kerf::tool::packageInto(Compilation &compilation,
                                const std::string &path,
                                llvm::ArrayRef<Compilation::Further> further) {
  return packageBeside(llvm::sys::path::parent_path(path).str(), compilation,
                       path, further, "");
}

Outcome kerf::tool::packageWith(const TemporaryFolder &objects,
                                Compilation &compilation,
                                const std::string &path,
                                llvm::ArrayRef<Compilation::Further> further,
                                const std::string &sizes) {
  return packageBeside(llvm::sys::path::parent_path(objects.file("x")).str(),
                       compilation, path, further, sizes);
}
