//===- ManifestLibrary.h - entries of "library" -----------------*- C++ -*-===//
#ifndef KERF_RUNTIME_PACKAGE_MANIFESTLIBRARY_H
#define KERF_RUNTIME_PACKAGE_MANIFESTLIBRARY_H

#include "JsonReader.h"
#include "Manifest.h"

namespace kerf::rt {

using Parameters = std::vector<Parameter>;

/// One entry of "library"; throws where it is wrong, with its place.
LibraryDesc parseLibrary(const JsonReader &in, const Parameters &parameters,
                         const std::vector<KernelEntry> &kernels);

/// Checks that each kernel is named by at most one call, and each call with
/// ReLU by one that fits. `in` is the whole manifest.
void checkOffers(const JsonReader &in, const std::vector<LibraryDesc> &library);

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_MANIFESTLIBRARY_H
