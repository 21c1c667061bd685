//===- versions.h - versions of the libraries used --------------*- C++ -*-===//
#ifndef KERF_RT_VERSIONS_H
#define KERF_RT_VERSIONS_H

#include <string>

namespace kerf::rt {

/// "oneDNN 2.6.3"; if it cannot be opened, why.
std::string cpuLibraryVersion();

} // namespace kerf::rt

#endif // KERF_RT_VERSIONS_H
