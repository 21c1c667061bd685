//===- NativeCalls.h - library calls of our own -----------------*- C++ -*-===//
//
// Calls that oneDNN lacks, or has with another meaning: gradients of pools
// (ties go to the first maximum, NaN counts as the largest number) and of
// gathers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CPU_NATIVECALLS_H
#define KERF_RT_DEVICE_CPU_NATIVECALLS_H

#include "../Device.h"

namespace kerf::rt {

/// Whether the call is one of these.
bool isNativeCall(const LibraryDesc &desc);

/// The call, or null if it is one of oneDNN's. Throws KERF_BAD_PACKAGE.
std::unique_ptr<LibraryCall> makeNativeCall(const LibraryDesc &desc,
                                            Device &device);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_NATIVECALLS_H
