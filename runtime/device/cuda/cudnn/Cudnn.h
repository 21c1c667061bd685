//===- Cudnn.h - cuDNN's graph API, opened at run time ----------*- C++ -*-===//
//
// The back-end functions of cuDNN's graph API take descriptors with attributes;
// the constants that convolutions and pools need are declared here and held
// against the real headers by unittests/Cuda.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNN_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNN_H

#include "../driver/DriverApi.h"

#include <string>

struct cudnnContext;
struct cudnnTensorStruct;

namespace kerf::rt {

namespace dnn {
using Status = int;
using Handle = ::cudnnContext *;
using Descriptor = void *;                // cudnnBackendDescriptor_t
using TensorDesc = ::cudnnTensorStruct *; // of the older API

enum : int {
  Success = 0,

  Float = 0, // cudnnDataType_t
  Double = 1,
  Half = 2,
  Int32 = 4,
  Bfloat16 = 9,
  Boolean = 11,

  // cudnnBackendDescriptorType_t
  PointwiseDescriptor = 0,
  ConvolutionDescriptor = 1,
  EngineDescriptor = 2,
  EngineConfigDescriptor = 3,
  EngineHeuristicsDescriptor = 4,
  ExecutionPlanDescriptor = 5,
  ConvolutionForwardDescriptor = 10,
  ConvolutionBackwardFilterDescriptor = 11,
  ConvolutionBackwardDataDescriptor = 12,
  PointwiseOperationDescriptor = 13,
  OperationGraphDescriptor = 15,
  VariantPackDescriptor = 16,
  TensorDescriptor = 17,
  MatmulDescriptor = 18,
  MatmulOperationDescriptor = 19,
  ReductionDescriptor = 21,
  ReductionOperationDescriptor = 22,
  ResampleDescriptor = 24,
  ResampleForwardDescriptor = 25,
  ReshapeOperationDescriptor = 31,
  DeviceDescriptor = 38,

  // cudnnBackendAttributeName_t
  PointwiseMode = 0,
  PointwiseMathPrecision = 1,
  PointwiseReluLowerClip = 3,
  PointwiseAxis = 9,
  ConvolutionCompType = 100,
  ConvolutionMode = 101,
  ConvolutionDilations = 102,
  ConvolutionFilterStrides = 103,
  ConvolutionPostPaddings = 104,
  ConvolutionPrePaddings = 105,
  ConvolutionSpatialDims = 106,
  HeuristicsMode = 200,
  HeuristicsOperationGraph = 201,
  HeuristicsResults = 202,
  HeuristicsDevice = 204,
  EngineConfigEngine = 300,
  PlanHandle = 400,
  PlanEngineConfig = 401,
  PlanWorkspaceSize = 402,
  PlanDevice = 407,
  ForwardAlpha = 700,
  ForwardBeta = 701,
  ForwardConvDesc = 702,
  ForwardW = 703,
  ForwardX = 704,
  ForwardY = 705,
  BackwardDataAlpha = 706,
  BackwardDataBeta = 707,
  BackwardDataConvDesc = 708,
  BackwardDataW = 709,
  BackwardDataDx = 710,
  BackwardDataDy = 711,
  BackwardFilterAlpha = 712,
  BackwardFilterBeta = 713,
  BackwardFilterConvDesc = 714,
  BackwardFilterDw = 715,
  BackwardFilterX = 716,
  BackwardFilterDy = 717,
  PointwiseOperationDesc = 750,
  PointwiseX = 751,
  PointwiseB = 752,
  PointwiseY = 753,
  PointwiseT = 758,
  GraphHandle = 800,
  GraphOps = 801,
  EngineGlobalIndex = 1301,
  EngineNumericalNote = 1303,
  TensorByteAlignment = 900,
  TensorDataType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorUniqueId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  VariantPackUniqueIds = 1000,
  VariantPackDataPointers = 1001,
  VariantPackWorkspace = 1003,
  MatmulCompType = 1500,
  MatmulA = 1520,
  MatmulB = 1521,
  MatmulC = 1522,
  MatmulDesc = 1523,
  ReductionOperator = 1600,
  ReductionCompType = 1601,
  ReductionX = 1610,
  ReductionY = 1611,
  ReductionDesc = 1612,
  ResampleMode = 1700,
  ResampleCompType = 1701,
  ResampleSpatialDims = 1702,
  ResamplePostPaddings = 1703,
  ResamplePrePaddings = 1704,
  ResampleStrides = 1705,
  ResampleWindowDims = 1706,
  ResamplePaddingMode = 1708,
  ResampleForwardX = 1710,
  ResampleForwardY = 1711,
  ResampleForwardDesc = 1716,
  ReshapeX = 2200,
  ReshapeY = 2201,
  DeviceJson = 2702,

  // cudnnBackendAttributeType_t
  TypeHandle = 0,
  TypeDataType = 1,
  TypeBoolean = 2,
  TypeInt64 = 3,
  TypeFloat = 4,
  TypeDouble = 5,
  TypeVoidPtr = 6,
  TypeConvolutionMode = 7,
  TypeHeuristicsMode = 8,
  TypeNumericalNote = 11,
  TypePointwiseMode = 14,
  TypeBackendDescriptor = 15,
  TypeReductionOperator = 18,
  TypeResampleMode = 21,
  TypePaddingMode = 22,
  TypeChar = 24,
  TypeFraction = 26,

  CrossCorrelation = 1,
  HeuristicsInstant = 0,
  HeuristicsFallback = 2,
  HeuristicsA = 3,
  PointwiseAdd = 0,
  PointwiseMul = 1,
  PointwiseDiv = 6,
  PointwiseSub = 9,
  PointwiseExp = 13,
  PointwiseLog = 15,
  PointwiseIdentity = 21,
  PointwiseReluForward = 100,
  PointwiseGeluTanhForward = 107,
  PointwiseNotLess = 303,
  PointwiseGenIndex = 501,
  PointwiseBinarySelect = 601,
  ReduceAdd = 0,
  ReduceMax = 3,
  ResampleAverageIncludePadding = 2,
  ResampleMax = 3,
  ResampleAverageExcludePadding = 4,
  ZeroPadding = 0,
  NegInfPadding = 1,

  // cudnnBackendNumericalNote_t
  NoteTensorCore = 0,
  NoteDownConvertInputs = 1,
  NoteReducedPrecisionReduction = 2,
  NoteFft = 3,
  NoteNondeterministic = 4,
  NoteWinograd = 5,
  NoteWinograd4x4 = 6,
  NoteWinograd6x6 = 7,
  NoteWinograd13x13 = 8,
};

struct Fraction {
  int64_t numerator, denominator;
};

// X(member, symbol, arguments)
#define KERF_CUDNN_FUNCTIONS(X)                                                \
  X(create, cudnnCreate, (Handle *))                                           \
  X(destroy, cudnnDestroy, (Handle))                                           \
  X(setStream, cudnnSetStream, (Handle, cu::Stream))                           \
  X(createDescriptor, cudnnBackendCreateDescriptor, (int, Descriptor *))       \
  X(destroyDescriptor, cudnnBackendDestroyDescriptor, (Descriptor))            \
  X(finalize, cudnnBackendFinalize, (Descriptor))                              \
  X(setAttribute, cudnnBackendSetAttribute,                                    \
    (Descriptor, int, int, int64_t, const void *))                             \
  X(getAttribute, cudnnBackendGetAttribute,                                    \
    (Descriptor, int, int, int64_t, int64_t *, void *))                        \
  X(execute, cudnnBackendExecute, (Handle, Descriptor, Descriptor))            \
  X(createTensor, cudnnCreateTensorDescriptor, (TensorDesc *))                 \
  X(destroyTensor, cudnnDestroyTensorDescriptor, (TensorDesc))                 \
  X(setTensor, cudnnSetTensorNdDescriptor,                                     \
    (TensorDesc, int, int, const int *, const int *))                          \
  X(transformTensor, cudnnTransformTensor,                                     \
    (Handle, const void *, TensorDesc, const void *, const void *, TensorDesc, \
     void *))

#define KERF_CUDNN_TYPE(member, symbol, arguments)                             \
  using member##Fn = Status(*) arguments;
KERF_CUDNN_FUNCTIONS(KERF_CUDNN_TYPE)
#undef KERF_CUDNN_TYPE
} // namespace dnn

struct Cudnn {
#define KERF_CUDNN_MEMBER(member, symbol, arguments)                           \
  dnn::member##Fn member = nullptr;
  KERF_CUDNN_FUNCTIONS(KERF_CUDNN_MEMBER)
#undef KERF_CUDNN_MEMBER
  size_t (*getVersion)() = nullptr;
  const char *(*getErrorString)(dnn::Status) = nullptr;
  std::string path;

  /// Opened on first use. Throws KERF_UNSUPPORTED_HOST when it is not there.
  static const Cudnn &get();
  void check(dnn::Status status, const char *what) const;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNN_H
