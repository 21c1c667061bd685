//===- WidenedCall.h - 16 bits where the library has none -------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CPU_WIDENEDCALL_H
#define KERF_RUNTIME_DEVICE_CPU_WIDENEDCALL_H

#include "../Device.h"

namespace kerf::rt {

/// Whether the call has operands or results of bfloat16.
bool isBrainFloat(const LibraryDesc &desc);

/// A call of bfloat16 or float16 by float32, for a CPU whose library has none:
/// operands are widened into the call's scratch, products and sums are those of
/// float32, and results are rounded once. Parameters are widened when it is
/// made. `cpu` outlives the call.
std::unique_ptr<LibraryCall>
makeWidenedCall(const LibraryDesc &desc, Device &cpu, int64_t index,
                const std::function<ParameterView(int64_t)> &parameter);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_WIDENEDCALL_H
