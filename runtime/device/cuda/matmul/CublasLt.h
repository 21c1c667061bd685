//===- CublasLt.h - cuBLASLt, opened at run time ----------------*- C++ -*-===//
//
// The part of cuBLASLt that matmuls need, declared here as DriverApi.h does for
// the driver; unittests/Cuda compares it with the real headers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_MATMUL_CUBLASLT_H
#define KERF_RUNTIME_DEVICE_CUDA_MATMUL_CUBLASLT_H

#include "../driver/DriverApi.h"

#include <string>

namespace kerf::rt {

namespace lt {
using Status = int; // cublasStatus_t
using Handle = void *;
using MatmulDesc = void *;
using MatrixLayout = void *;
using Preference = void *;

struct Algo {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algo algo;
  size_t workspaceSize;
  Status state;
  float wavesCount;
  int reserved[4];
};

enum : int {
  Success = 0,

  R32F = 0, // cudaDataType_t
  R64F = 1,
  R16F = 2,
  R16BF = 14,
  Compute32F = 68, // cublasComputeType_t
  Compute64F = 70,
  Compute32FastTF32 = 77,
  OpN = 0,
  OpT = 1,

  LayoutBatchCount = 5,
  LayoutStridedBatchOffset = 6,
  DescTransA = 3,
  DescTransB = 4,
  DescEpilogue = 7,
  DescBiasPointer = 8,
  DescAuxPointer = 11,
  DescAuxLd = 12,
  DescAuxBatchStride = 13,
  DescBiasDataType = 26,
  PreferenceMaxWorkspace = 1,
  PreferenceMinAlignmentA = 5,
  PreferenceMinAlignmentB = 6,
  PreferenceMinAlignmentC = 7,
  PreferenceMinAlignmentD = 8,

  EpilogueDefault = 1,
  EpilogueRelu = 2,
  EpilogueBias = 4,
  EpilogueGelu = 32,
  EpilogueAux = 128,
  EpilogueDRelu = 8 | 128,
  EpilogueDGelu = 64 | 128,
  EpilogueBiasGradientA = 256,
  EpilogueBiasGradientB = 512,
};

// X(member, symbol, arguments)
#define KERF_CUBLASLT_FUNCTIONS(X)                                             \
  X(create, cublasLtCreate, (Handle *))                                        \
  X(destroy, cublasLtDestroy, (Handle))                                        \
  X(matmulDescCreate, cublasLtMatmulDescCreate, (MatmulDesc *, int, int))      \
  X(matmulDescDestroy, cublasLtMatmulDescDestroy, (MatmulDesc))                \
  X(matmulDescSetAttribute, cublasLtMatmulDescSetAttribute,                    \
    (MatmulDesc, int, const void *, size_t))                                   \
  X(matrixLayoutCreate, cublasLtMatrixLayoutCreate,                            \
    (MatrixLayout *, int, uint64_t, uint64_t, int64_t))                        \
  X(matrixLayoutDestroy, cublasLtMatrixLayoutDestroy, (MatrixLayout))          \
  X(matrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute,                \
    (MatrixLayout, int, const void *, size_t))                                 \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, (Preference *))          \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, (Preference))          \
  X(preferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute,              \
    (Preference, int, const void *, size_t))                                   \
  X(algoGetHeuristic, cublasLtMatmulAlgoGetHeuristic,                          \
    (Handle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout,             \
     MatrixLayout, Preference, int, HeuristicResult *, int *))                 \
  X(algoCheck, cublasLtMatmulAlgoCheck,                                        \
    (Handle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout,             \
     MatrixLayout, const Algo *, HeuristicResult *))                           \
  X(matmul, cublasLtMatmul,                                                    \
    (Handle, MatmulDesc, const void *, const void *, MatrixLayout,             \
     const void *, MatrixLayout, const void *, const void *, MatrixLayout,     \
     void *, MatrixLayout, const Algo *, void *, size_t, cu::Stream))

#define KERF_CUBLASLT_TYPE(member, symbol, arguments)                          \
  using member##Fn = Status(*) arguments;
KERF_CUBLASLT_FUNCTIONS(KERF_CUBLASLT_TYPE)
#undef KERF_CUBLASLT_TYPE
} // namespace lt

struct CublasLt {
#define KERF_CUBLASLT_MEMBER(member, symbol, arguments)                        \
  lt::member##Fn member = nullptr;
  KERF_CUBLASLT_FUNCTIONS(KERF_CUBLASLT_MEMBER)
#undef KERF_CUBLASLT_MEMBER
  size_t (*getVersion)() = nullptr;
  const char *(*getStatusString)(lt::Status) = nullptr;
  std::string path;

  /// Opened on first use. Throws KERF_UNSUPPORTED_HOST when it is not there.
  static const CublasLt &get();
  void check(lt::Status status, const char *what) const;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_MATMUL_CUBLASLT_H
