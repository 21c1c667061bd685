//===- DnnlCall.h - matmul, convolution and pooling by oneDNN ---*- C++ -*-===//
//
// A descriptor of the manifest becomes one oneDNN primitive with its post-ops,
// created for this rank's number of threads; weights that are parameters are
// reordered once into the layout that the primitive likes best.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLCALL_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLCALL_H

#include "../../Device.h"
#include "../gemm/PackCache.h"
#include "Dnnl.h"
#include "KnownBounds.h"

namespace kerf::rt {

/// One engine and stream, of one rank.
struct DnnlContext {
  DnnlContext();
  DnnlHandle<dnnl_engine_t> engine;
  DnnlHandle<dnnl_stream_t> stream;
};

std::unique_ptr<LibraryCall>
makeDnnlCall(const LibraryDesc &desc, DnnlContext &context, Device &device,
             CpuPackCache &cache, KnownBounds &known,
             const std::function<ParameterView(int64_t)> &parameter,
             int32_t threads);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLCALL_H
