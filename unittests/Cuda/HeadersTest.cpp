//===- HeadersTest.cpp - our declarations against the real headers --------===//
//
// Compiled only where CUDA's headers are. Constants must be equal; a function
// must have the same number of parameters, each of the same size and class
// (pointer or number); structs must have the same layout. What is wrong does
// not compile.
//
//===----------------------------------------------------------------------===//
#include "device/cuda/cudnn/Cudnn.h"
#include "device/cuda/driver/Activity.h"
#include "device/cuda/driver/Driver.h"
#include "device/cuda/driver/Nccl.h"
#include "device/cuda/matmul/CublasLt.h"

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#if __has_include(<cupti.h>) // a wheel of its own
#include <cupti.h>
#define KERF_HAVE_CUPTI
#endif
#include <nccl.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

using namespace kerf::rt;

namespace {
template <typename A, typename B> constexpr bool alike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_same_v<A, B>;
  else
    return sizeof(A) == sizeof(B) &&
           std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_class_v<A> == std::is_class_v<B>;
}
template <typename A, typename B> struct SameSignature : std::false_type {};
template <typename RA, typename... A, typename RB, typename... B>
struct SameSignature<RA (*)(A...), RB (*)(B...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return alike<RA, RB>() && (alike<A, B>() && ...);
  }
  static constexpr bool value = compare();
};

// The versioned names are macros of the unversioned ones.
namespace drivers {
#define COMPARE(member, symbol, arguments)                                     \
  static_assert(SameSignature<cu::member##Fn, decltype(&::symbol)>::value,     \
                #symbol);
KERF_CUDA_DRIVER_FUNCTIONS(COMPARE)
#undef COMPARE
} // namespace drivers
#define COMPARE(member, symbol, arguments)                                     \
  static_assert(SameSignature<nccl::member##Fn, decltype(&::symbol)>::value,   \
                #symbol);
KERF_NCCL_FUNCTIONS(COMPARE)
KERF_NCCL_OPTIONAL(COMPARE)
#undef COMPARE
#define COMPARE(member, symbol, arguments)                                     \
  static_assert(SameSignature<lt::member##Fn, decltype(&::symbol)>::value,     \
                #symbol);
KERF_CUBLASLT_FUNCTIONS(COMPARE)
#undef COMPARE
#define COMPARE(member, symbol, arguments)                                     \
  static_assert(SameSignature<dnn::member##Fn, decltype(&::symbol)>::value,    \
                #symbol);
KERF_CUDNN_FUNCTIONS(COMPARE)
#undef COMPARE

#define SAME(ours, real)                                                       \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(real),  \
                #real);
SAME(cu::Success, CUDA_SUCCESS)
SAME(cu::ErrorInvalidValue, CUDA_ERROR_INVALID_VALUE)
SAME(cu::ErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
SAME(cu::ErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED)
SAME(cu::ErrorStubLibrary, CUDA_ERROR_STUB_LIBRARY)
SAME(cu::ErrorCallRequiresNewerDriver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)
SAME(cu::ErrorNoDevice, CUDA_ERROR_NO_DEVICE)
SAME(cu::ErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE)
SAME(cu::ErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE)
SAME(cu::ErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT)
SAME(cu::ErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
SAME(cu::ErrorInvalidPtx, CUDA_ERROR_INVALID_PTX)
SAME(cu::ErrorJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
SAME(cu::ErrorUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
SAME(cu::ErrorInvalidSource, CUDA_ERROR_INVALID_SOURCE)
SAME(cu::ErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE)
SAME(cu::ErrorNotFound, CUDA_ERROR_NOT_FOUND)
SAME(cu::ErrorNotReady, CUDA_ERROR_NOT_READY)
SAME(cu::ErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
SAME(cu::ErrorLaunchFailed, CUDA_ERROR_LAUNCH_FAILED)
SAME(cu::ErrorSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
SAME(cu::ErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
SAME(cu::ErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
SAME(cu::ErrorStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
SAME(cu::ErrorStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
SAME(cu::AttributeMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
SAME(cu::AttributeMaxPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH)
SAME(cu::AttributeMemoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
SAME(cu::AttributeGlobalMemoryBusWidth,
     CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
SAME(cu::AttributeComputeCapabilityMajor,
     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME(cu::AttributeComputeCapabilityMinor,
     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME(cu::StreamNonBlocking, CU_STREAM_NON_BLOCKING)
SAME(cu::EventDefault, CU_EVENT_DEFAULT)
SAME(cu::EventDisableTiming, CU_EVENT_DISABLE_TIMING)
SAME(cu::FunctionMaxDynamicSharedBytes,
     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
SAME(cu::MemoryTypeHost, CU_MEMORYTYPE_HOST)
SAME(cu::MemoryTypeDevice, CU_MEMORYTYPE_DEVICE)
SAME(cu::JitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER)
SAME(cu::JitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
SAME(cu::CaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
SAME(cu::InstantiateUseNodePriority,
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
SAME(sizeof(cu::Memcpy3D), sizeof(CUDA_MEMCPY3D))
SAME(offsetof(cu::Memcpy3D, srcDevice), offsetof(CUDA_MEMCPY3D, srcDevice))
SAME(offsetof(cu::Memcpy3D, srcPitch), offsetof(CUDA_MEMCPY3D, srcPitch))
SAME(offsetof(cu::Memcpy3D, srcHeight), offsetof(CUDA_MEMCPY3D, srcHeight))
SAME(offsetof(cu::Memcpy3D, dstMemoryType),
     offsetof(CUDA_MEMCPY3D, dstMemoryType))
SAME(offsetof(cu::Memcpy3D, dstDevice), offsetof(CUDA_MEMCPY3D, dstDevice))
SAME(offsetof(cu::Memcpy3D, dstPitch), offsetof(CUDA_MEMCPY3D, dstPitch))
SAME(offsetof(cu::Memcpy3D, widthInBytes),
     offsetof(CUDA_MEMCPY3D, WidthInBytes))
SAME(offsetof(cu::Memcpy3D, depth), offsetof(CUDA_MEMCPY3D, Depth))
static_assert(std::is_same_v<cu::Stream, CUstream>);
static_assert(std::is_same_v<cu::Event, CUevent>);
static_assert(std::is_same_v<cu::Context, CUcontext>);
static_assert(std::is_same_v<cu::Function, CUfunction>);
static_assert(std::is_same_v<cu::DevicePtr, CUdeviceptr>);

SAME(nccl::Success, ncclSuccess)
SAME(nccl::SystemError, ncclSystemError)
SAME(nccl::InvalidArgument, ncclInvalidArgument)
SAME(nccl::InvalidUsage, ncclInvalidUsage)
SAME(nccl::RemoteError, ncclRemoteError)
SAME(nccl::InProgress, ncclInProgress)
SAME(nccl::Sum, ncclSum)
SAME(nccl::Prod, ncclProd)
SAME(nccl::Max, ncclMax)
SAME(nccl::Min, ncclMin)
SAME(nccl::Int8, ncclInt8)
SAME(nccl::Uint8, ncclUint8)
SAME(nccl::Int32, ncclInt32)
SAME(nccl::Uint32, ncclUint32)
SAME(nccl::Int64, ncclInt64)
SAME(nccl::Uint64, ncclUint64)
SAME(nccl::Float16, ncclFloat16)
SAME(nccl::Float32, ncclFloat32)
SAME(nccl::Float64, ncclFloat64)
SAME(nccl::Bfloat16, ncclBfloat16)
SAME(nccl::SplitNoColor, NCCL_SPLIT_NOCOLOR)
#ifdef NCCL_WIN_COLL_SYMMETRIC
SAME(nccl::WindowSymmetric, NCCL_WIN_COLL_SYMMETRIC)
#endif
SAME(sizeof(nccl::UniqueId), sizeof(ncclUniqueId))
SAME(offsetof(nccl::Config, blocking), offsetof(ncclConfig_t, blocking))
SAME(offsetof(nccl::Config, maxCtas), offsetof(ncclConfig_t, maxCTAs))
SAME(offsetof(nccl::Config, netName), offsetof(ncclConfig_t, netName))
SAME(offsetof(nccl::Config, splitShare), offsetof(ncclConfig_t, splitShare))
#if NCCL_VERSION_CODE >= 22800
SAME(offsetof(nccl::Config, trafficClass), offsetof(ncclConfig_t, trafficClass))
SAME(sizeof(nccl::Config), offsetof(ncclConfig_t, commName))
#endif

SAME(lt::R32F, CUDA_R_32F)
SAME(lt::R64F, CUDA_R_64F)
SAME(lt::R16F, CUDA_R_16F)
SAME(lt::R16BF, CUDA_R_16BF)
SAME(lt::Compute32F, CUBLAS_COMPUTE_32F)
SAME(lt::Compute64F, CUBLAS_COMPUTE_64F)
SAME(lt::Compute32FastTF32, CUBLAS_COMPUTE_32F_FAST_TF32)
SAME(lt::OpN, CUBLAS_OP_N)
SAME(lt::OpT, CUBLAS_OP_T)
SAME(lt::LayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
SAME(lt::LayoutStridedBatchOffset, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
SAME(lt::DescTransA, CUBLASLT_MATMUL_DESC_TRANSA)
SAME(lt::DescTransB, CUBLASLT_MATMUL_DESC_TRANSB)
SAME(lt::DescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE)
SAME(lt::DescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
SAME(lt::DescAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
SAME(lt::DescAuxLd, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
SAME(lt::DescAuxBatchStride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE)
SAME(lt::DescBiasDataType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
SAME(lt::PreferenceMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
SAME(lt::PreferenceMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
SAME(lt::PreferenceMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
SAME(lt::PreferenceMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
SAME(lt::PreferenceMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
SAME(lt::EpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT)
SAME(lt::EpilogueRelu, CUBLASLT_EPILOGUE_RELU)
SAME(lt::EpilogueBias, CUBLASLT_EPILOGUE_BIAS)
SAME(lt::EpilogueGelu, CUBLASLT_EPILOGUE_GELU)
SAME(lt::EpilogueGelu | lt::EpilogueAux, CUBLASLT_EPILOGUE_GELU_AUX)
SAME(lt::EpilogueGelu | lt::EpilogueBias, CUBLASLT_EPILOGUE_GELU_BIAS)
SAME(lt::EpilogueDGelu, CUBLASLT_EPILOGUE_DGELU)
SAME(lt::EpilogueRelu | lt::EpilogueAux, CUBLASLT_EPILOGUE_RELU_AUX)
SAME(lt::EpilogueRelu | lt::EpilogueAux | lt::EpilogueBias,
     CUBLASLT_EPILOGUE_RELU_AUX_BIAS)
SAME(lt::EpilogueDRelu, CUBLASLT_EPILOGUE_DRELU)
SAME(lt::EpilogueBiasGradientA, CUBLASLT_EPILOGUE_BGRADA)
SAME(lt::EpilogueBiasGradientB, CUBLASLT_EPILOGUE_BGRADB)
SAME(sizeof(lt::Algo), sizeof(cublasLtMatmulAlgo_t))
SAME(sizeof(lt::HeuristicResult), sizeof(cublasLtMatmulHeuristicResult_t))
SAME(offsetof(lt::HeuristicResult, workspaceSize),
     offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize))
SAME(offsetof(lt::HeuristicResult, state),
     offsetof(cublasLtMatmulHeuristicResult_t, state))

SAME(dnn::Float, CUDNN_DATA_FLOAT)
SAME(dnn::Double, CUDNN_DATA_DOUBLE)
SAME(dnn::Half, CUDNN_DATA_HALF)
SAME(dnn::Bfloat16, CUDNN_DATA_BFLOAT16)
SAME(dnn::PointwiseDescriptor, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
SAME(dnn::ConvolutionDescriptor, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
SAME(dnn::EngineDescriptor, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
SAME(dnn::EngineConfigDescriptor, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
SAME(dnn::EngineHeuristicsDescriptor, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
SAME(dnn::ExecutionPlanDescriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
SAME(dnn::ConvolutionForwardDescriptor,
     CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
SAME(dnn::ConvolutionBackwardFilterDescriptor,
     CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
SAME(dnn::ConvolutionBackwardDataDescriptor,
     CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
SAME(dnn::PointwiseOperationDescriptor,
     CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
SAME(dnn::OperationGraphDescriptor, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
SAME(dnn::VariantPackDescriptor, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
SAME(dnn::TensorDescriptor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
SAME(dnn::ResampleDescriptor, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR)
SAME(dnn::ResampleForwardDescriptor,
     CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR)
SAME(dnn::PointwiseMode, CUDNN_ATTR_POINTWISE_MODE)
SAME(dnn::PointwiseMathPrecision, CUDNN_ATTR_POINTWISE_MATH_PREC)
SAME(dnn::PointwiseReluLowerClip, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP)
SAME(dnn::ConvolutionCompType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
SAME(dnn::ConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE)
SAME(dnn::ConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS)
SAME(dnn::ConvolutionFilterStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)
SAME(dnn::ConvolutionPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)
SAME(dnn::ConvolutionPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)
SAME(dnn::ConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)
SAME(dnn::HeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE)
SAME(dnn::HeuristicsOperationGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
SAME(dnn::HeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS)
SAME(dnn::PlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
SAME(dnn::PlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
SAME(dnn::PlanWorkspaceSize, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
SAME(dnn::ForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)
SAME(dnn::ForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)
SAME(dnn::ForwardConvDesc, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC)
SAME(dnn::ForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)
SAME(dnn::ForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)
SAME(dnn::ForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)
SAME(dnn::BackwardDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA)
SAME(dnn::BackwardDataBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA)
SAME(dnn::BackwardDataConvDesc,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC)
SAME(dnn::BackwardDataW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W)
SAME(dnn::BackwardDataDx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX)
SAME(dnn::BackwardDataDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY)
SAME(dnn::BackwardFilterAlpha,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)
SAME(dnn::BackwardFilterBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)
SAME(dnn::BackwardFilterConvDesc,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC)
SAME(dnn::BackwardFilterDw, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW)
SAME(dnn::BackwardFilterX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X)
SAME(dnn::BackwardFilterDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)
SAME(dnn::PointwiseOperationDesc, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
SAME(dnn::PointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
SAME(dnn::PointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
SAME(dnn::PointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
SAME(dnn::GraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
SAME(dnn::GraphOps, CUDNN_ATTR_OPERATIONGRAPH_OPS)
SAME(dnn::TensorByteAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
SAME(dnn::TensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE)
SAME(dnn::TensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS)
SAME(dnn::TensorStrides, CUDNN_ATTR_TENSOR_STRIDES)
SAME(dnn::TensorUniqueId, CUDNN_ATTR_TENSOR_UNIQUE_ID)
SAME(dnn::TensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL)
SAME(dnn::VariantPackUniqueIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
SAME(dnn::VariantPackDataPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
SAME(dnn::VariantPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
SAME(dnn::ResampleMode, CUDNN_ATTR_RESAMPLE_MODE)
SAME(dnn::ResampleCompType, CUDNN_ATTR_RESAMPLE_COMP_TYPE)
SAME(dnn::ResampleSpatialDims, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS)
SAME(dnn::ResamplePostPaddings, CUDNN_ATTR_RESAMPLE_POST_PADDINGS)
SAME(dnn::ResamplePrePaddings, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)
SAME(dnn::ResampleStrides, CUDNN_ATTR_RESAMPLE_STRIDES)
SAME(dnn::ResampleWindowDims, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)
SAME(dnn::ResamplePaddingMode, CUDNN_ATTR_RESAMPLE_PADDING_MODE)
SAME(dnn::ResampleForwardX, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC)
SAME(dnn::ResampleForwardY, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC)
SAME(dnn::ResampleForwardDesc, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC)
SAME(dnn::TypeHandle, CUDNN_TYPE_HANDLE)
SAME(dnn::TypeDataType, CUDNN_TYPE_DATA_TYPE)
SAME(dnn::TypeBoolean, CUDNN_TYPE_BOOLEAN)
SAME(dnn::TypeInt64, CUDNN_TYPE_INT64)
SAME(dnn::TypeFloat, CUDNN_TYPE_FLOAT)
SAME(dnn::TypeDouble, CUDNN_TYPE_DOUBLE)
SAME(dnn::TypeVoidPtr, CUDNN_TYPE_VOID_PTR)
SAME(dnn::TypeConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE)
SAME(dnn::TypeHeuristicsMode, CUDNN_TYPE_HEUR_MODE)
SAME(dnn::TypePointwiseMode, CUDNN_TYPE_POINTWISE_MODE)
SAME(dnn::TypeBackendDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
SAME(dnn::TypeResampleMode, CUDNN_TYPE_RESAMPLE_MODE)
SAME(dnn::TypePaddingMode, CUDNN_TYPE_PADDING_MODE)
SAME(dnn::TypeFraction, CUDNN_TYPE_FRACTION)
SAME(dnn::CrossCorrelation, CUDNN_CROSS_CORRELATION)
SAME(dnn::HeuristicsInstant, CUDNN_HEUR_MODE_INSTANT)
SAME(dnn::HeuristicsFallback, CUDNN_HEUR_MODE_FALLBACK)
SAME(dnn::HeuristicsA, CUDNN_HEUR_MODE_A)
SAME(dnn::PointwiseAdd, CUDNN_POINTWISE_ADD)
SAME(dnn::PointwiseReluForward, CUDNN_POINTWISE_RELU_FWD)
SAME(dnn::PointwiseGeluTanhForward, CUDNN_POINTWISE_GELU_APPROX_TANH_FWD)
SAME(dnn::ResampleAverageIncludePadding, CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING)
SAME(dnn::ResampleMax, CUDNN_RESAMPLE_MAXPOOL)
SAME(dnn::ResampleAverageExcludePadding, CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING)
SAME(dnn::ZeroPadding, CUDNN_ZERO_PAD)
SAME(dnn::NegInfPadding, CUDNN_NEG_INF_PAD)
SAME(dnn::Int32, CUDNN_DATA_INT32)
SAME(dnn::Boolean, CUDNN_DATA_BOOLEAN)
SAME(dnn::MatmulDescriptor, CUDNN_BACKEND_MATMUL_DESCRIPTOR)
SAME(dnn::MatmulOperationDescriptor, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
SAME(dnn::ReductionDescriptor, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
SAME(dnn::ReductionOperationDescriptor,
     CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
SAME(dnn::ReshapeOperationDescriptor,
     CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
SAME(dnn::PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS)
SAME(dnn::PointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC)
SAME(dnn::TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
SAME(dnn::MatmulCompType, CUDNN_ATTR_MATMUL_COMP_TYPE)
SAME(dnn::MatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC)
SAME(dnn::MatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC)
SAME(dnn::MatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC)
SAME(dnn::MatmulDesc, CUDNN_ATTR_OPERATION_MATMUL_DESC)
SAME(dnn::ReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR)
SAME(dnn::ReductionCompType, CUDNN_ATTR_REDUCTION_COMP_TYPE)
SAME(dnn::ReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)
SAME(dnn::ReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)
SAME(dnn::ReductionDesc, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
SAME(dnn::ReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)
SAME(dnn::ReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)
SAME(dnn::TypeReductionOperator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)
SAME(dnn::PointwiseMul, CUDNN_POINTWISE_MUL)
SAME(dnn::PointwiseDiv, CUDNN_POINTWISE_DIV)
SAME(dnn::PointwiseSub, CUDNN_POINTWISE_SUB)
SAME(dnn::PointwiseExp, CUDNN_POINTWISE_EXP)
SAME(dnn::PointwiseLog, CUDNN_POINTWISE_LOG)
SAME(dnn::PointwiseIdentity, CUDNN_POINTWISE_IDENTITY)
SAME(dnn::PointwiseNotLess, CUDNN_POINTWISE_CMP_GE)
SAME(dnn::PointwiseGenIndex, CUDNN_POINTWISE_GEN_INDEX)
SAME(dnn::PointwiseBinarySelect, CUDNN_POINTWISE_BINARY_SELECT)
SAME(dnn::ReduceAdd, CUDNN_REDUCE_TENSOR_ADD)
SAME(dnn::ReduceMax, CUDNN_REDUCE_TENSOR_MAX)
SAME(dnn::EngineConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE)
SAME(dnn::EngineGlobalIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
SAME(dnn::EngineNumericalNote, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
SAME(dnn::TypeNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE)
SAME(dnn::TypeChar, CUDNN_TYPE_CHAR)
SAME(dnn::NoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
SAME(dnn::NoteDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
SAME(dnn::NoteReducedPrecisionReduction,
     CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
SAME(dnn::NoteFft, CUDNN_NUMERICAL_NOTE_FFT)
SAME(dnn::NoteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
SAME(dnn::NoteWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD)
SAME(dnn::NoteWinograd4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4)
SAME(dnn::NoteWinograd6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6)
SAME(dnn::NoteWinograd13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13)
#if CUDNN_VERSION >= 90800 // described devices
SAME(dnn::HeuristicsDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
SAME(dnn::PlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)
SAME(dnn::DeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
SAME(dnn::DeviceDescriptor, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
#endif
SAME(sizeof(dnn::Fraction), sizeof(cudnnFraction_t))

#ifdef KERF_HAVE_CUPTI
#define COMPARE(member, symbol, arguments)                                     \
  static_assert(SameSignature<cupti::member##Fn, decltype(&::symbol)>::value,  \
                #symbol);
KERF_CUPTI_FUNCTIONS(COMPARE)
#undef COMPARE
SAME(cupti::KindMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY)
SAME(cupti::KindMemset, CUPTI_ACTIVITY_KIND_MEMSET)
SAME(cupti::KindConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
// Newer records only add fields: what is read lies where the oldest has it.
#define FIELD(ours, field, real, theirs)                                       \
  SAME(offsetof(ours, field), offsetof(real, theirs))
FIELD(cupti::Kernel, start, CUpti_ActivityKernel9, start)
FIELD(cupti::Kernel, end, CUpti_ActivityKernel9, end)
FIELD(cupti::Kernel, device, CUpti_ActivityKernel9, deviceId)
FIELD(cupti::Kernel, stream, CUpti_ActivityKernel9, streamId)
FIELD(cupti::Kernel, correlation, CUpti_ActivityKernel9, correlationId)
FIELD(cupti::Kernel, name, CUpti_ActivityKernel9, name)
FIELD(cupti::Memory, copyKind, CUpti_ActivityMemcpy5, copyKind)
FIELD(cupti::Memory, start, CUpti_ActivityMemcpy5, start)
FIELD(cupti::Memory, end, CUpti_ActivityMemcpy5, end)
FIELD(cupti::Memory, device, CUpti_ActivityMemcpy5, deviceId)
FIELD(cupti::Memory, stream, CUpti_ActivityMemcpy5, streamId)
FIELD(cupti::Memory, start, CUpti_ActivityMemset4, start)
FIELD(cupti::Memory, end, CUpti_ActivityMemset4, end)
FIELD(cupti::Memory, device, CUpti_ActivityMemset4, deviceId)
FIELD(cupti::Memory, stream, CUpti_ActivityMemset4, streamId)
#undef FIELD
#endif

TEST(Headers, Agree) { SUCCEED() << "what differs does not compile"; }

// The libraries that the headers belong to open without a driver and have every
// symbol; where they are not installed there is nothing to look at.
TEST(Headers, LibrariesOpen) {
  auto open = [](auto &&get) {
    try {
      get();
    } catch (const Error &error) {
      EXPECT_NE(error.message.find("not on this machine"), std::string::npos)
          << error.message;
    }
  };
  open([] { CublasLt::get(); });
  open([] { Cudnn::get(); });
}
} // namespace
