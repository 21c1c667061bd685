//===- PackageRanks.h - what a compiled package runs on ---------*- C++ -*-===//
#ifndef KERF_TOOLS_PACKAGERANKS_H
#define KERF_TOOLS_PACKAGERANKS_H

#include "kerf/rt/runtime.h"

#include <string>

namespace kerf::tool {

/// ", for 2 ranks" behind "is compiled already", where `flag` asks for others;
/// empty for other flags, and of what is no package that can be opened.
inline std::string forRanks(const std::string &flag,
                            const std::string &package) {
  if (flag != "--devices" && flag != "--mesh")
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

} // namespace kerf::tool

#endif // KERF_TOOLS_PACKAGERANKS_H
