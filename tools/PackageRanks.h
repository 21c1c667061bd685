//===- PackageRanks.h - what a compiled package runs on ---------*- C++ -*-===//
#ifndef KERF_TOOLS_PACKAGERANKS_H
#define KERF_TOOLS_PACKAGERANKS_H

#include "kerf/rt/runtime.h"

#include <algorithm>
#include <string>
#include <vector>

namespace kerf::tool {

/// ", for 2 ranks" behind "is compiled already", where `flags` ask for others;
/// empty for other flags, and of what is no package that can be opened.
inline std::string forRanks(const std::vector<std::string> &flags,
                            const std::string &package) {
  auto has = [&](const char *flag) {
    return std::count(flags.begin(), flags.end(), flag) > 0;
  };
  if (!has("--devices") && !has("--mesh"))
    return "";
  kerf_package_options_t options{};
  options.struct_size = sizeof(options);
  options.skip_hashes = 1;
  kerf_package_t *opened = nullptr;
  if (kerf_package_open(package.c_str(), &options, &opened))
    return "";
  auto count = kerf_package_num_ranks(opened);
  kerf_package_close(opened);
  return ", for " + std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

/// What is said of flags of compilation where `package` is given, which is
/// empty where it is not known.
inline std::string compiledAlready(const std::vector<std::string> &flags,
                                   const std::string &package) {
  std::string names;
  for (size_t i = 0; i < flags.size(); ++i)
    names += (i == 0 ? "" : i + 1 == flags.size() ? " and " : ", ") + flags[i];
  const char *them = flags.size() == 1 ? "it" : "them";
  return names + ": " +
         (package.empty() ? "a package" : package + " is a package, which") +
         " is compiled already" +
         (package.empty() ? "" : forRanks(flags, package)) + ": leave " + them +
         " out, or give " + them + " to kerf compile";
}

} // namespace kerf::tool

#endif // KERF_TOOLS_PACKAGERANKS_H
