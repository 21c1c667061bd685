//===- DriverApi.h - the used part of CUDA's driver API ---------*- C++ -*-===//
//
// A user has no CUDA headers, so the few types, constants and signatures that
// the runtime needs are declared here, under names of our own. Handles use the
// tags of the real headers, which makes the pointer types the same ones;
// enumerations are ints. unittests/Cuda/HeadersTest.cpp compares every constant
// and signature with the real headers where they are installed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_DRIVERAPI_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_DRIVERAPI_H

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUevent_st;
struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace kerf::rt::cu {

using Result = int; // CUresult
using Device = int;
using DevicePtr = unsigned long long;
using Context = ::CUctx_st *;
using Module = ::CUmod_st *;
using Function = ::CUfunc_st *;
using Event = ::CUevent_st *;
using Stream = ::CUstream_st *;
using Graph = ::CUgraph_st *;
using GraphExec = ::CUgraphExec_st *;

enum : int {
  Success = 0,
  ErrorInvalidValue = 1,
  ErrorOutOfMemory = 2,
  ErrorNotInitialized = 3,
  ErrorStubLibrary = 34,
  ErrorCallRequiresNewerDriver = 36,
  ErrorNoDevice = 100,
  ErrorInvalidDevice = 101,
  ErrorInvalidImage = 200,
  ErrorInvalidContext = 201,
  ErrorNoBinaryForGpu = 209,
  ErrorInvalidPtx = 218,
  ErrorJitCompilerNotFound = 221,
  ErrorUnsupportedPtxVersion = 222,
  ErrorInvalidSource = 300,
  ErrorInvalidHandle = 400,
  ErrorNotFound = 500,
  ErrorNotReady = 600,
  ErrorIllegalAddress = 700,
  ErrorLaunchFailed = 719,
  ErrorSystemDriverMismatch = 803,
  ErrorStreamCaptureUnsupported = 900,
  ErrorStreamCaptureInvalidated = 901,
  ErrorStreamCaptureUnjoined = 904,
  ErrorStreamCaptureIsolation = 905,

  AttributeMaxPitch = 11,
  AttributeMultiprocessorCount = 16,
  AttributeMemoryClockRate = 36,
  AttributeGlobalMemoryBusWidth = 37,
  AttributeComputeCapabilityMajor = 75,
  AttributeComputeCapabilityMinor = 76,
  StreamNonBlocking = 1,
  EventDefault = 0,
  EventDisableTiming = 2,
  EventRecordExternal = 1,
  FunctionMaxDynamicSharedBytes = 8,
  MemoryTypeHost = 1,
  MemoryTypeDevice = 2,
  JitErrorLogBuffer = 5,
  JitErrorLogBufferSizeBytes = 6,
  CaptureModeThreadLocal = 1,
  InstantiateUseNodePriority = 8,
};

/// CUDA_MEMCPY3D.
struct Memcpy3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  int srcMemoryType;
  const void *srcHost;
  DevicePtr srcDevice;
  void *srcArray, *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  int dstMemoryType;
  void *dstHost;
  DevicePtr dstDevice;
  void *dstArray, *reserved1;
  size_t dstPitch, dstHeight;
  size_t widthInBytes, height, depth;
};

} // namespace kerf::rt::cu

// X(member, symbol, arguments): every function returns a Result.
#define KERF_CUDA_DRIVER_FUNCTIONS(X)                                          \
  X(init, cuInit, (unsigned))                                                  \
  X(driverGetVersion, cuDriverGetVersion, (int *))                             \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                 \
  X(deviceGet, cuDeviceGet, (Device *, int))                                   \
  X(deviceGetName, cuDeviceGetName, (char *, int, Device))                     \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *, int, Device))            \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain, (Context *, Device))       \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2, (Device))             \
  X(contextSetCurrent, cuCtxSetCurrent, (Context))                             \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *, size_t *))                         \
  X(memAlloc, cuMemAlloc_v2, (DevicePtr *, size_t))                            \
  X(memFree, cuMemFree_v2, (DevicePtr))                                        \
  X(memAllocHost, cuMemAllocHost_v2, (void **, size_t))                        \
  X(memFreeHost, cuMemFreeHost, (void *))                                      \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                     \
    (DevicePtr, const void *, size_t, Stream))                                 \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                     \
    (void *, DevicePtr, size_t, Stream))                                       \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                     \
    (DevicePtr, DevicePtr, size_t, Stream))                                    \
  X(memcpy3DAsync, cuMemcpy3DAsync_v2, (const Memcpy3D *, Stream))             \
  X(memsetD8Async, cuMemsetD8Async,                                            \
    (DevicePtr, unsigned char, size_t, Stream))                                \
  X(streamCreateWithPriority, cuStreamCreateWithPriority,                      \
    (Stream *, unsigned, int))                                                 \
  X(streamDestroy, cuStreamDestroy_v2, (Stream))                               \
  X(streamSynchronize, cuStreamSynchronize, (Stream))                          \
  X(streamWaitEvent, cuStreamWaitEvent, (Stream, Event, unsigned))             \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (Stream, int))                \
  X(streamEndCapture, cuStreamEndCapture, (Stream, Graph *))                   \
  X(eventCreate, cuEventCreate, (Event *, unsigned))                           \
  X(eventDestroy, cuEventDestroy_v2, (Event))                                  \
  X(eventRecord, cuEventRecord, (Event, Stream))                               \
  X(eventRecordWithFlags, cuEventRecordWithFlags, (Event, Stream, unsigned))   \
  X(eventQuery, cuEventQuery, (Event))                                         \
  X(eventElapsedTime, cuEventElapsedTime, (float *, Event, Event))             \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                      \
    (Module *, const void *, unsigned, int *, void **))                        \
  X(moduleUnload, cuModuleUnload, (Module))                                    \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (Function *, Module, const char *))                                        \
  X(funcSetAttribute, cuFuncSetAttribute, (Function, int, int))                \
  X(launchKernel, cuLaunchKernel,                                              \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
     unsigned, Stream, void **, void **))                                      \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (GraphExec *, Graph, unsigned long long))                                  \
  X(graphUpload, cuGraphUpload, (GraphExec, Stream))                           \
  X(graphLaunch, cuGraphLaunch, (GraphExec, Stream))                           \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExec))                         \
  X(graphDestroy, cuGraphDestroy, (Graph))                                     \
  X(getErrorName, cuGetErrorName, (Result, const char **))                     \
  X(getErrorString, cuGetErrorString, (Result, const char **))

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_DRIVERAPI_H
