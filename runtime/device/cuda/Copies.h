//===- Copies.h - strided copies on a stream --------------------*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CUDA_COPIES_H
#define KERF_RT_DEVICE_CUDA_COPIES_H

#include "../../base/Boxes.h"
#include "driver/Driver.h"

namespace kerf::rt {

/// Of a box between two places of the memory of a GPU.
void copyBoxOn(const Driver &cuda, const GpuInfo &gpu, const BoxCopy &box,
               const void *src, void *dst, cu::Stream stream);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_COPIES_H
