//===- Find.cpp - finds NVIDIA's libraries --------------------------------===//
//
// A candidate that is a plain name is left to the dynamic linker; one with a
// slash is tried only if the file exists, so that the error lists what was
// really tried.
//
//===----------------------------------------------------------------------===//
#include "Find.h"

#include "../../../base/Error.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>

using namespace kerf::rt;
namespace fs = std::filesystem;

static std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

static std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(':', begin), list.size());
    if (end != begin)
      parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

static void addOnce(std::vector<std::string> &list, const std::string &item) {
  if (std::find(list.begin(), list.end(), item) == list.end())
    list.push_back(item);
}

// PREFIX/lib/python3.*/site-packages and the dist-packages of Debian, newest
// version first.
static void addPrefix(std::vector<std::string> &sites, const fs::path &prefix) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const char *lib : {"lib", "lib64"})
    for (fs::directory_iterator it(prefix / lib, ignored), end;
         !ignored && it != end; it.increment(ignored)) {
      std::string name = it->path().filename();
      if (name.rfind("python3", 0) != 0)
        continue;
      for (const char *folder : {"site-packages", "dist-packages"})
        if (fs::is_directory(it->path() / folder, ignored))
          found.push_back((it->path() / folder).string());
      ignored.clear();
    }
  // python3.9 before python3.12 as text: longer names are newer.
  std::sort(found.begin(), found.end(),
            [](const std::string &a, const std::string &b) {
              return a.size() != b.size() ? a.size() > b.size() : a > b;
            });
  for (const std::string &site : found)
    addOnce(sites, site);
}

std::vector<std::string> kerf::rt::sitePackages() {
  std::vector<std::string> sites;
  for (const std::string &site : split(environment("KERF_PYTHON_SITE")))
    addOnce(sites, site);
  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string prefix = environment(name); !prefix.empty())
      addPrefix(sites, prefix);
  // A virtual environment's interpreter is a link: its own folder comes first,
  // then the one it points to.
  for (const std::string &folder : split(environment("PATH")))
    for (const char *name : {"python3", "python"}) {
      fs::path python = fs::path(folder) / name;
      std::error_code error;
      if (!fs::exists(python, error))
        continue;
      addPrefix(sites, python.parent_path().parent_path());
      fs::path real = fs::canonical(python, error);
      if (!error)
        addPrefix(sites, real.parent_path().parent_path());
    }
  if (std::string home = environment("HOME"); !home.empty())
    addPrefix(sites, fs::path(home) / ".local");
  addPrefix(sites, "/usr/local");
  addPrefix(sites, "/usr");
  return sites;
}

std::vector<std::string> kerf::rt::candidates(const LibrarySearch &search) {
  if (std::string given = environment(search.variable); !given.empty())
    return {given};
  std::vector<std::string> result = search.names, folders;
  for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string home = environment(name); !home.empty())
      addOnce(folders, home);
  addOnce(folders, "/usr/local/cuda");
  for (const std::string &folder : folders)
    for (const char *lib : {"lib64", "lib", "targets/x86_64-linux/lib"})
      for (const std::string &name : search.names)
        result.push_back(folder + "/" + lib + "/" + name);
  if (!search.wheels.empty())
    for (const std::string &site : sitePackages())
      for (const std::string &wheel : search.wheels)
        for (const std::string &name : search.names)
          result.push_back(site + "/nvidia/" + wheel + "/lib/" + name);
  if (!search.others.empty()) {
    LibrarySearch last = search;
    last.names = std::move(last.others);
    last.others.clear();
    for (const std::string &candidate : candidates(last))
      result.push_back(candidate);
  }
  return result;
}

void kerf::rt::nameForDriver(LibrarySearch &search, const std::string &stem,
                             int driverVersion) {
  bool old = driverVersion / 1000 < 13;
  search.names = {stem + ".12"};
  search.others.clear();
  if (old)
    search.others = {stem + ".13"};
  else
    search.names.insert(search.names.begin(), stem + ".13");
}

OpenedLibrary kerf::rt::openLibrary(const LibrarySearch &search) {
  OpenedLibrary result;
  result.what = search.what;
  bool given = !environment(search.variable).empty();
  size_t missing = 0;
  for (const std::string &candidate : candidates(search)) {
    std::error_code ignored;
    if (!given && candidate.find('/') != std::string::npos &&
        !fs::exists(candidate, ignored)) {
      ++missing;
      continue;
    }
    result.handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (result.handle) {
      link_map *map = nullptr;
      ::dlinfo(result.handle, RTLD_DI_LINKMAP, &map);
      result.path = map && map->l_name ? map->l_name : candidate;
      result.error.clear();
      return result;
    }
    const char *why = ::dlerror();
    result.error += (result.error.empty() ? "" : "; ") +
                    std::string(why ? why : candidate.c_str());
  }
  if (given)
    result.error += std::string(" (") + search.variable + " is set)";
  else if (missing)
    result.error += "; not in " + std::to_string(missing) +
                    " places of toolkits and Python wheels; " +
                    search.variable + " can name the file";
  return result;
}

OpenedLibrary kerf::rt::requireLibrary(const LibrarySearch &search,
                                       const char *use) {
  OpenedLibrary library = openLibrary(search);
  if (!library.handle)
    throw Error(KERF_UNSUPPORTED_HOST,
                cat(use, ", which is not on this machine: ", library.error));
  return library;
}

void *OpenedLibrary::symbol(const char *name) const {
  return handle ? ::dlsym(handle, name) : nullptr;
}

void *OpenedLibrary::require(const char *name, const char *needs) const {
  void *found = symbol(name);
  if (!found)
    throw Error(KERF_UNSUPPORTED_HOST,
                cat(what, " at ", path, " has no ", name, needs));
  return found;
}

void kerf::rt::failCall(const char *library, const char *what, int status,
                        const char *text) {
  throw Error(KERF_PROGRAM_FAILURE,
              cat(library, ": ", what, " failed: ", text ? text : "status ",
                  text ? "" : std::to_string(status)));
}
