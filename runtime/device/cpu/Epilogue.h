//===- Epilogue.h - epilogues of GPUs, on the CPU ---------------*- C++ -*-===//
//
// cuBLASLt multiplies a product by the slope of an activation before it stores
// it. Packages for CPUs have a kernel for that; this code answers for a
// recording driver, and replaces a kernel of the package that it cannot run.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CPU_EPILOGUE_H
#define KERF_RT_DEVICE_CPU_EPILOGUE_H

#include "../Device.h"

namespace kerf::rt {

/// Whether the last post-op is gelu_tanh_gradient.
bool hasGradientEpilogue(const LibraryDesc &desc);
/// The call without it.
LibraryDesc withoutGradient(const LibraryDesc &desc);
/// dst = dst * gelu'(operand). Throws KERF_BAD_PACKAGE for other types than
/// f32, f64 and bf16.
void applyGradient(const LibraryDesc &desc, void *const *buffers);

/// The product by `plain`, then applyGradient, then `after`.
std::unique_ptr<LibraryCall> makeEpilogueCall(
    const LibraryDesc &desc,
    const std::function<std::unique_ptr<LibraryCall>(const LibraryDesc &)>
        &plain,
    std::function<void()> after);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_EPILOGUE_H
