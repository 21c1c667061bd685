//===- Nccl.h - NCCL, opened at run time ------------------------*- C++ -*-===//
//
// The functions of NCCL that the runtime uses, in one table. As with CUDA
// (DriverApi.h), types and constants are declared here, because a user has no
// headers; unittests/Cuda/HeadersTest.cpp compares them with the real ones. The
// file is that of KERF_NCCL, or found as Find.h says.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_NCCL_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_NCCL_H

#include "../../../base/Types.h"
#include "../../../comm/Collective.h"
#include "DriverApi.h"

struct ncclComm;

namespace kerf::rt {

namespace nccl {
using Result = int; // ncclResult_t
using Comm = ::ncclComm *;
struct UniqueId {
  char internal[128];
};

enum : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
  Sum = 0,
  Prod = 1,
  Max = 2,
  Min = 3,
  Int8 = 0,
  Uint8 = 1,
  Int32 = 2,
  Uint32 = 3,
  Int64 = 4,
  Uint64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9,
  SplitNoColor = -1,
  WindowSymmetric = 1, // NCCL_WIN_COLL_SYMMETRIC
};
using Window = void *; // ncclWindow_t

/// The first fields of ncclConfig_t, as of 2.18. Later versions accept it:
/// `size` and `version` tell them which fields exist.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCtas, maxCtas;
  const char *netName;
  int splitShare;
  int trafficClass; ///< of later versions, in what was padding
};
static_assert(sizeof(Config) == 48);
/// A configuration with all fields undefined except `blocking`, which is off.
Config nonBlocking();

// X(member, symbol, arguments)
#define KERF_NCCL_FUNCTIONS(X)                                                 \
  X(getVersion, ncclGetVersion, (int *))                                       \
  X(getUniqueId, ncclGetUniqueId, (UniqueId *))                                \
  X(commInitRankConfig, ncclCommInitRankConfig,                                \
    (Comm *, int, UniqueId, int, Config *))                                    \
  X(commSplit, ncclCommSplit, (Comm, int, int, Comm *, Config *))              \
  X(commDestroy, ncclCommDestroy, (Comm))                                      \
  X(commAbort, ncclCommAbort, (Comm))                                          \
  X(commGetAsyncError, ncclCommGetAsyncError, (Comm, Result *))                \
  X(allReduce, ncclAllReduce,                                                  \
    (const void *, void *, size_t, int, int, Comm, cu::Stream))                \
  X(reduceScatter, ncclReduceScatter,                                          \
    (const void *, void *, size_t, int, int, Comm, cu::Stream))                \
  X(allGather, ncclAllGather,                                                  \
    (const void *, void *, size_t, int, Comm, cu::Stream))                     \
  X(broadcast, ncclBroadcast,                                                  \
    (const void *, void *, size_t, int, int, Comm, cu::Stream))                \
  X(send, ncclSend, (const void *, size_t, int, int, Comm, cu::Stream))        \
  X(recv, ncclRecv, (void *, size_t, int, int, Comm, cu::Stream))              \
  X(groupStart, ncclGroupStart, ())                                            \
  X(groupEnd, ncclGroupEnd, ())

// Not in every version: null where missing.
#define KERF_NCCL_OPTIONAL(X)                                                  \
  X(commRegister, ncclCommRegister, (Comm, void *, size_t, void **))           \
  X(commDeregister, ncclCommDeregister, (Comm, void *))                        \
  X(memAlloc, ncclMemAlloc, (void **, size_t))                                 \
  X(memFree, ncclMemFree, (void *))                                            \
  X(windowRegister, ncclCommWindowRegister,                                    \
    (Comm, void *, size_t, Window *, int))                                     \
  X(windowDeregister, ncclCommWindowDeregister, (Comm, Window))

#define KERF_NCCL_TYPE(member, symbol, arguments)                              \
  using member##Fn = Result(*) arguments;
KERF_NCCL_FUNCTIONS(KERF_NCCL_TYPE)
KERF_NCCL_OPTIONAL(KERF_NCCL_TYPE)
#undef KERF_NCCL_TYPE
} // namespace nccl

struct Nccl {
#define KERF_NCCL_MEMBER(member, symbol, arguments)                            \
  nccl::member##Fn member = nullptr;
  KERF_NCCL_FUNCTIONS(KERF_NCCL_MEMBER)
  KERF_NCCL_OPTIONAL(KERF_NCCL_MEMBER)
#undef KERF_NCCL_MEMBER
  const char *(*getErrorString)(nccl::Result) = nullptr;
  const char *(*getLastError)(nccl::Comm) = nullptr;
  std::string path;
  int version = 0; ///< 22809: 2.28.9

  /// Opened on first use. Throws KERF_UNSUPPORTED_HOST when it is not there or
  /// too old.
  static const Nccl &get();
  std::string describe(nccl::Result result, nccl::Comm comm = nullptr) const;
  /// Whether a rank's allocation should come from NCCL, so that it can become a
  /// symmetric window: 2.27 or newer, and no variable says otherwise
  /// (KERF_NCCL_REGISTER=0, KERF_NCCL_SYMMETRIC=0, KERF_SHARE_GPU=1).
  bool wantsWindows() const;
};

/// NCCL's type for data that is reduced; throws KERF_BAD_PACKAGE where it has
/// none.
int ncclTypeOf(kerf_dtype_t dtype);
int ncclReductionOf(Reduction reduction);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_NCCL_H
