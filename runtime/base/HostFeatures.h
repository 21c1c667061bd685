//===- HostFeatures.h - does this CPU run that program? ---------*- C++ -*-===//
#ifndef KERF_RUNTIME_BASE_HOSTFEATURES_H
#define KERF_RUNTIME_BASE_HOSTFEATURES_H

#include <string>
#include <vector>

namespace kerf::rt {

/// Of `features` (LLVM's names) those that this host's CPU lacks. Names that
/// are no instruction set known here are taken for tuning flags and pass.
std::vector<std::string>
missingHostFeatures(const std::vector<std::string> &features);

/// For tests: the same against a given "flags" line of /proc/cpuinfo.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &features,
                const std::string &cpuFlags);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_HOSTFEATURES_H
