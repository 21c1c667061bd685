//===- Magnitude.h - the largest number in a tensor -------------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_MAGNITUDE_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_MAGNITUDE_H

#include "../../Device.h"

namespace kerf::rt {

/// The largest |x|; infinity if one is NaN. `data` holds f32 or bf16; the
/// result for other types is infinity. Read by all threads of the device, at
/// the speed of memory.
double largestMagnitude(Device &device, const void *data, int64_t elements,
                        kerf_dtype_t dtype);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_MAGNITUDE_H
