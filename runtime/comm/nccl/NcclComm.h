//===- NcclComm.h - one GPU rank's endpoint ---------------------*- C++ -*-===//
#ifndef KERF_RT_COMM_NCCL_NCCLCOMM_H
#define KERF_RT_COMM_NCCL_NCCLCOMM_H

#include "../../device/cuda/CudaDevice.h"
#include "NcclWorldImpl.h"
#include "StreamComm.h"

namespace kerf::rt {

/// On the rank's thread; `device` must be a CUDA device.
std::unique_ptr<StreamComm> makeNcclComm(NcclWorld &world, int64_t rank,
                                         Device &device);

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_NCCLCOMM_H
