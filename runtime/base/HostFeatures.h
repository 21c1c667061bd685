//===- HostFeatures.h - does this CPU run that program? ---------*- C++ -*-===//
#ifndef KERF_RUNTIME_BASE_HOSTFEATURES_H
#define KERF_RUNTIME_BASE_HOSTFEATURES_H

#include <string>
#include <vector>

namespace kerf::rt {

/// The `features` (LLVM's names) that this host's CPU lacks. Unknown names
/// count as tuning flags and are ignored.
std::vector<std::string>
missingHostFeatures(const std::vector<std::string> &features);

/// For tests: the same against a given "flags" line of /proc/cpuinfo.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &features,
                const std::string &cpuFlags);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_HOSTFEATURES_H
