//===- AttentionCall.h - attention on the CPU -------------------*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CPU_ATTENTIONCALL_H
#define KERF_RT_DEVICE_CPU_ATTENTIONCALL_H

#include "../Device.h"

namespace kerf::rt {

/// attention or attention_gradient.
std::unique_ptr<LibraryCall> makeAttentionCall(const LibraryDesc &desc,
                                               Device &device);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_ATTENTIONCALL_H
