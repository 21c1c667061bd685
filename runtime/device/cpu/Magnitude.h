//===- Magnitude.h - whether numbers are finite and not huge ----*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CPU_MAGNITUDE_H
#define KERF_RT_DEVICE_CPU_MAGNITUDE_H

#include "../Device.h"

namespace kerf::rt {

/// Whether every |x| is below 2^exponent; NaN and infinities are not. `data`
/// holds f32 or bf16; other types give false. Read by all threads of the
/// device, at the speed of memory.
bool allBelow(Device &device, const void *data, int64_t elements,
              kerf_dtype_t dtype, int exponent);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_MAGNITUDE_H
