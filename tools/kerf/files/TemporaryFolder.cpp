//===- TemporaryFolder.cpp - a folder that goes with the command ----------===//
//
// Also where a signal ends the command: its handler removes the folders and
// sends the signal again, to what was there before. It calls only what a
// handler may call, so the entries of a folder are read by the system call.
//
// A command that is killed leaves its folder. Each holds the lock of a file in
// its own, and children inherit it, so that a later command sees which folders
// are of nobody, and removes them.
//
//===----------------------------------------------------------------------===//
#include "../Setup.h"

#include "kerf/rt/job.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/file.h>
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
// With the name of the machine: not every file system that machines share tells
// one what another has locked.
static char lockName[80] = ".kerf-lock.";

/// An entry of a folder as the system call getdents64 gives it.
struct Entry {
  uint64_t number;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[1];
};

/// `name` in the open folder `parent`. One entry that cannot be removed ends
/// it. The lock goes last, so that what is left has it.
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
    bool hasLock = false;
    ::lseek(folder, 0, SEEK_SET);
    auto bytes = ::syscall(SYS_getdents64, folder, buffer, sizeof(buffer));
    for (decltype(bytes) at = 0; isFine && at < bytes;) {
      const auto *entry = reinterpret_cast<const Entry *>(buffer + at);
      at += entry->length;
      const char *child = buffer + (at - entry->length) + offsetof(Entry, name);
      if (!std::strcmp(child, ".") || !std::strcmp(child, ".."))
        continue;
      if (depth == 0 && !std::strcmp(child, lockName)) {
        hasLock = true;
        continue;
      }
      isEmpty = false;
      isFine = removeAll(folder, child, depth + 1);
    }
    if (isFine && isEmpty && hasLock) {
      isEmpty = false; // until the next round says so
      isFine = ::unlinkat(folder, lockName, 0) == 0;
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

/// Locks the folder's own file, which has its name once it is locked. Not
/// closed in programs that are started: they may use the folder, too.
static int lockFolder(const std::string &folder) {
  std::string name = folder + "/" + lockName, early = name + ".new";
  int lock = ::open(early.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0 &&
      ::rename(early.c_str(), name.c_str()) == 0)
    return lock;
  // It is a folder that no other command removes.
  ::unlink(early.c_str());
  if (lock >= 0)
    ::close(lock);
  return -1;
}

/// Removes the folder `path` if it is of this user and nobody has its lock.
static void removeIfLeft(const std::string &path) {
  int folder =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return;
  int lock = ::openat(folder, lockName,
                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat ofFolder = {}, ofLock = {}, now = {};
  // Another command may have removed it, and a third made one of this name.
  if (lock >= 0 && ::fstat(folder, &ofFolder) == 0 &&
      ofFolder.st_uid == ::geteuid() && ::flock(lock, LOCK_EX | LOCK_NB) == 0 &&
      ::fstat(lock, &ofLock) == 0 &&
      ::stat((path + "/" + lockName).c_str(), &now) == 0 &&
      now.st_dev == ofLock.st_dev && now.st_ino == ofLock.st_ino)
    removeAll(AT_FDCWD, path.c_str());
  if (lock >= 0)
    ::close(lock);
  ::close(folder);
}

/// Removes what killed commands have left in the folder of temporary files.
static void removeLeftFolders() {
  llvm::SmallString<128> parent;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, parent);
  std::error_code code;
  constexpr llvm::StringLiteral prefix = "kerf-";
  constexpr size_t digits = 6; // as createUniqueDirectory has them
  for (llvm::sys::fs::directory_iterator it(parent, code, false), end;
       !code && it != end; it.increment(code)) {
    llvm::StringRef name = llvm::sys::path::filename(it->path());
    if (name.consume_front(prefix) && name.size() == digits &&
        llvm::all_of(name, llvm::isHexDigit))
      removeIfLeft(it->path());
  }
}

/// What is ignored does not end the command. In a job, all processes agree on
/// the end, and the folders go as ever.
static void watchSignals() {
  owner = ::getpid();
  size_t length = std::strlen(lockName);
  ::gethostname(lockName + length, sizeof(lockName) - length - 1);
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

namespace {
/// Holds back the signals that end a command while it makes what their handlers
/// do not know yet. Of the thread that has it, so before others are started.
class HeldSignals {
public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (int signal : endings)
      sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  HeldSignals(const HeldSignals &) = delete;
  HeldSignals &operator=(const HeldSignals &) = delete;

private:
  sigset_t before;
};
} // namespace

TemporaryFolder::TemporaryFolder() {
  llvm::SmallString<128> folder;
  HeldSignals held; // until the handler knows the folder
  static std::once_flag isWatched;
  std::call_once(isWatched, watchSignals);
  removeLeftFolders();
  if (std::error_code code =
          llvm::sys::fs::createUniqueDirectory("kerf", folder))
    throw Failure{kRunTime,
                  folder.str().str() + ": cannot create: " + code.message(),
                  {}};
  path = folder.str().str();
  lock = lockFolder(path);
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
  removeAll(AT_FDCWD, path.c_str());
  if (lock >= 0)
    ::close(lock);
}

void kerf::tool::openTemporary(std::optional<TemporaryFolder> &folder,
                               std::optional<rt::StopNote> &early, bool alone) {
  HeldSignals held;
  folder.emplace();
  if (alone)
    early.emplace(", before the first step: nothing is written");
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
