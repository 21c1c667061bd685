//===- UsedFiles.cpp - files that a command reads and writes --------------===//
#include "kerf/rt/files.h"

#include "../base/Error.h"
#include "AtomicFile.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

namespace {
/// Which file a path means. Of one that does not exist: the nearest folder
/// above it that does, and the names from there on.
struct Identity {
  dev_t device = 0;
  ino_t number = 0;
  std::string rest;

  bool operator==(const Identity &other) const {
    return device == other.device && number == other.number &&
           rest == other.rest;
  }
};
} // namespace

/// "a/b" of "a/b///"; "/" stays.
static std::string withoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

static std::string nameOf(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

/// Where a link that leads nowhere points to: a file made through it would be
/// made there.
static std::string throughLinks(std::string path) {
  char target[PATH_MAX];
  for (int depth = 0; depth < 40; ++depth) {
    ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    if (length <= 0)
      return path;
    std::string next(target, static_cast<size_t>(length));
    path = next[0] == '/' ? next : folderOf(path) + "/" + next;
  }
  return path;
}

static Identity identityOf(std::string path) {
  struct stat info;
  Identity identity;
  path = withoutSlashes(path);
  if (::stat(path.c_str(), &info) != 0)
    path = throughLinks(path);
  while (::stat(path.c_str(), &info) != 0) {
    std::string name = nameOf(path), folder = folderOf(path);
    if (folder == path) // nothing exists, not even the current folder
      return identity;
    if (name != "." && !name.empty())
      identity.rest = "/" + name + identity.rest;
    path = withoutSlashes(folder);
  }
  identity.device = info.st_dev;
  identity.number = info.st_ino;
  return identity;
}

/// Whether a path lies in a folder, at any depth.
static bool isInside(const std::string &path, const Identity &folder) {
  std::string at = withoutSlashes(path);
  char real[PATH_MAX];
  if (::realpath(at.c_str(), real))
    at = real;
  else if (::realpath(folderOf(at).c_str(), real))
    at = std::string(real) + "/" + nameOf(at);
  while (at != "/" && at != ".") {
    at = folderOf(at);
    if (identityOf(at) == folder)
      return true;
  }
  return false;
}

static bool isFolder(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void UsedFiles::reads(const std::string &flag, const std::string &path) {
  if (path.empty())
    return;
  DIR *open = isFolder(path) ? ::opendir(path.c_str()) : nullptr;
  if (!open) {
    uses.push_back({Kind::Input, flag, path});
    return;
  }
  std::vector<std::string> names;
  while (const dirent *entry = ::readdir(open))
    names.push_back(entry->d_name);
  ::closedir(open);
  std::sort(names.begin(), names.end());
  for (const std::string &name : names)
    if (std::string file = path + "/" + name; !isFolder(file))
      uses.push_back({Kind::Input, flag, file});
}

void UsedFiles::writes(const std::string &flag, const std::string &path,
                       const std::string &usual) {
  if (!path.empty())
    uses.push_back({Kind::File, flag, path, "", "", usual});
}

void UsedFiles::replaces(const std::string &flag, const std::string &path) {
  if (!path.empty())
    uses.push_back({Kind::Package, flag, withoutSlashes(path)});
}

void UsedFiles::fills(const std::string &flag, const std::string &folder,
                      const std::vector<std::string> &names) {
  if (folder.empty())
    return;
  uses.push_back({Kind::Folder, flag, withoutSlashes(folder)});
  for (const std::string &name : names)
    uses.push_back({Kind::File, flag, folder + "/" + name});
}

void UsedFiles::keeps(const std::string &flag, const std::string &folder,
                      const std::string &prefix, const std::string &ending) {
  if (!folder.empty())
    uses.push_back(
        {Kind::Series, flag, withoutSlashes(folder), prefix, ending});
}

std::string kerf::rt::whyNotWritable(const std::string &folder) {
  std::string trial =
      folder + "/.kerf-trial" + std::to_string(static_cast<long>(::getpid()));
  int file = ::open(trial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                    0600); // what permissions say is not all: /proc
  if (file < 0)
    return whyFailed(trial, errno);
  ::close(file);
  ::unlink(trial.c_str());
  return "";
}

/// Why a folder cannot be made at `path` or filled; empty if it can.
static std::string whyNoFolder(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0)
    return !S_ISDIR(info.st_mode) ? "is no folder"
           : whyNotWritable(path).empty()
               ? ""
               : "cannot write: " + whyNotWritable(path);
  std::string why = whyNotWritable(withoutSlashes(folderOf(path)));
  return why.empty() ? "" : "cannot create: " + why;
}

/// Makes a temporary file beside the path, as writing will do first.
static std::string whyNotMade(const std::string &path) {
  try {
    AtomicFile trial(path);
    return "";
  } catch (const Error &error) {
    return error.message.substr(path.size() + 2);
  }
}

/// A use with its identity, which takes calls of the system to find.
struct UsedFiles::Placed {
  const Use &use;
  Identity place;
};

bool UsedFiles::collide(const Placed &output, const Placed &other) {
  const Use &use = other.use;
  switch (output.use.kind) {
  case Kind::Input:
  case Kind::Folder: // several may share one
    return false;
  case Kind::File:
    return (use.kind == Kind::Input || use.kind == Kind::File) &&
           output.place == other.place;
  case Kind::Package:
    return output.place == other.place || isInside(use.path, output.place);
  case Kind::Series: {
    std::string name = nameOf(use.path);
    const std::string &prefix = output.use.prefix, &ending = output.use.ending;
    return use.kind != Kind::Series && use.kind != Kind::Folder &&
           name.size() > prefix.size() + ending.size() &&
           name.compare(0, prefix.size(), prefix) == 0 &&
           name.compare(name.size() - ending.size(), ending.size(), ending) ==
               0 &&
           output.place == identityOf(folderOf(use.path));
  }
  }
  return false;
}

std::string UsedFiles::checkDistinct() const {
  std::vector<Placed> placed;
  for (const Use &use : uses)
    placed.push_back({use, identityOf(use.path)});
  for (size_t i = 0; i < uses.size(); ++i)
    for (size_t j = 0; j < uses.size(); ++j) {
      if (i == j || !collide(placed[i], placed[j]))
        continue;
      // Of two outputs the later one is named first.
      bool isSecond = uses[j].kind != Kind::Input && j > i;
      const Use &named = isSecond ? uses[j] : uses[i];
      const Use &other = isSecond ? uses[i] : uses[j];
      return named.path + ": is given by " + named.flag + " and by " +
             other.flag;
    }
  return "";
}

/// Whether a folder is a package, whose manifest says so.
static bool isPackage(const std::string &folder) {
  std::ifstream manifest(folder + "/manifest.json");
  std::string text(std::istreambuf_iterator<char>(manifest), {});
  return text.find("\"kerf.package/") != std::string::npos;
}

/// The package that a path lies in, or is; empty: none.
static std::string packageAround(std::string path) {
  char real[PATH_MAX];
  // Folders that do not exist yet have nothing in them.
  while (!::realpath(path.c_str(), real)) {
    std::string folder = withoutSlashes(folderOf(path));
    if (folder == path)
      return "";
    path = folder;
  }
  for (path = real; path != "/"; path = withoutSlashes(folderOf(path)))
    if (isPackage(path))
      return path;
  return "";
}

std::string UsedFiles::check() const {
  if (std::string same = checkDistinct(); !same.empty())
    return same;
  for (const Use &use : uses) {
    if (use.kind == Kind::Input)
      continue;
    // A package itself may be replaced.
    std::string package = packageAround(use.kind == Kind::Package
                                            ? withoutSlashes(folderOf(use.path))
                                            : use.path);
    if (!package.empty())
      return use.path + ": " + use.flag + " would write into the package " +
             package + ", expected a place outside it";
  }
  struct stat info;
  auto isToBeMade = [&](const std::string &folder) {
    return ::stat(folder.c_str(), &info) != 0 &&
           std::any_of(uses.begin(), uses.end(), [&](const Use &use) {
             return use.kind == Kind::Folder &&
                    use.path == withoutSlashes(folder);
           });
  };
  for (const Use &use : uses) {
    std::string why;
    switch (use.kind) {
    case Kind::Input:
      break;
    case Kind::File:
      // If the command makes the folder, nothing in it can be in the way.
      if (!isToBeMade(folderOf(use.path)))
        why = whyNotMade(use.path);
      if (!use.usual.empty() && isFolder(use.path))
        why = "is a folder, and " + use.flag + " writes a file: " + use.flag +
              (use.flag.size() == 2 ? " " : "=") +
              (use.path == "/" ? "" : withoutSlashes(use.path)) + "/" +
              use.usual;
      break;
    case Kind::Package:
      why = whyNotWritable(folderOf(use.path));
      if (!why.empty())
        why = "cannot create: " + why;
      break;
    case Kind::Folder:
    case Kind::Series:
      why = whyNoFolder(use.path);
      break;
    }
    // Nothing was begun: whoever asked can do what is missing.
    const std::string_view missing = "\" does not exist";
    bool isMissing =
        why.size() > missing.size() &&
        why.compare(why.size() - missing.size(), missing.size(), missing) == 0;
    if (!why.empty())
      return use.path + ": " + why + (isMissing ? ": make it first" : "");
  }
  return "";
}
