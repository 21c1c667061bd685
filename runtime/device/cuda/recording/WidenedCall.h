//===- WidenedCall.h - float16 where the CPU has none -----------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_RECORDING_WIDENEDCALL_H
#define KERF_RUNTIME_DEVICE_CUDA_RECORDING_WIDENEDCALL_H

#include "../../Device.h"

namespace kerf::rt {

/// A buffer of a call: its type and how many elements the call may touch.
struct CallBuffer {
  kerf_dtype_t dtype;
  int64_t elements = 0; ///< 0: the call does not use it
  bool reads = false, writes = false;
};

/// For a recording driver: answers a float16 call (the sums are float32, as on
/// a GPU) by a CPU whose library has no float16: copies of the operands are
/// widened, the results are rounded. `buffers` are the call's, by number.
std::unique_ptr<LibraryCall>
makeWidenedCall(Device &cpu, const LibraryDesc &desc, int64_t index,
                const std::function<ParameterView(int64_t)> &parameter,
                std::vector<CallBuffer> buffers);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_RECORDING_WIDENEDCALL_H
