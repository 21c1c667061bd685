//===- ManifestCuda.h - what manifest.json says for GPUs --------*- C++ -*-===//
#ifndef KERF_RUNTIME_PACKAGE_MANIFESTCUDA_H
#define KERF_RUNTIME_PACKAGE_MANIFESTCUDA_H

#include "JsonReader.h"
#include "Manifest.h"

namespace kerf::rt {

/// `target` of a package whose device is "cuda".
void parseCudaTarget(const JsonReader &target, Manifest &m);
/// `cuda` of a kernel or a library call: its launch.
CudaKernel parseCudaKernel(const JsonReader &in);

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_MANIFESTCUDA_H
