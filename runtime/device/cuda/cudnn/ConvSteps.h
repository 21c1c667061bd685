//===- ConvSteps.h - a convolution as steps that cuDNN can do ---*- C++ -*-===//
//
// A call becomes a few steps on the stream: graphs of cuDNN, conversions to and
// from f32, weights brought into another order. There are several forms, and
// which of them cuDNN has engines for depends on types, sizes and GPU:
//
//   fused   one graph: convolution, then bias, added tensor, ReLU
//   split   the convolution alone, then the others in place
//   wide    16-bit operands are converted to f32 first, and a convolution of
//           f32 follows
//
// The first form is taken for which every graph has an engine. If 16-bit
// operands give f32, the convolution has a virtual f32 result and an identity
// stores it: cuDNN's engines fuse steps behind such a product, but most do not
// write another type than they read.
//
// Wide convolutions may use TF32: it holds every bf16 and every f16 exactly.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CONVSTEPS_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CONVSTEPS_H

#include "ConvPlan.h"
#include "CudnnPlans.h"

#include <map>

namespace kerf::rt {

/// The places of tensors. Image and Result are those of the forward
/// convolution, for the gradients too.
enum class ConvPlace : int64_t {
  Image = 1,
  Result,
  StoredWeights, ///< as the manifest has them
  Bias,
  Added,
  // In the workspace.
  Weights, ///< in cuDNN's order
  WideImage,
  WideResult,
  WideStoredWeights,
  WideWeights,
};
inline bool isScratch(ConvPlace place) { return place >= ConvPlace::Weights; }

struct ConvStep {
  enum Kind { Graph, Cast, Reorder } kind = Graph;
  bool ofWeights =
      false; ///< makes the weights ready: once if they never change

  // Cast: `elements` in a row from element `first` on, any types. Reorder:
  // weights, f32, f64 or f16.
  ConvPlace from{}, to{};
  kerf_dtype_t fromType = KERF_F32, toType = KERF_F32;
  int64_t first = 0, elements = 0, alignment = 16;

  std::string name; ///< of a graph, for a cache
  DnnNotes refused = 0;
  std::vector<DnnDescriptor> parts; ///< the graph is the last
  /// The place of each tensor of the graph.
  std::vector<std::pair<int64_t, ConvPlace>> bound;
};

struct ConvSteps {
  std::vector<ConvStep> steps; ///< in this order
  std::map<ConvPlace, int64_t> bytes;
};

struct ConvForm {
  bool fused, wide;
  bool fallback; ///< engines that cuDNN's heuristics do not advise, too
};

/// The forms that apply to the call, best first.
std::vector<ConvForm> convForms(const LibraryDesc &desc, const ConvPlan &conv);

/// Nothing where cuDNN refuses a graph. `tf32`: f32 may be rounded to it.
std::optional<ConvSteps> describeConv(const DnnTarget &target,
                                      const LibraryDesc &desc,
                                      const ConvPlan &conv, ConvForm form,
                                      bool tf32);

/// A dense row of elements in the shape that cuDNN's elementwise engines take:
/// channels last, more than one channel, and not so many that their blocks
/// exceed what a grid has in one direction (65535).
DnnTensor dnnRow(int64_t elements);

/// Tensor 1 becomes tensor 2; both are dense and aligned to `alignment` bytes.
/// The graph is the last descriptor; the list is empty where cuDNN refuses it.
std::vector<DnnDescriptor> describeCast(const DnnTarget &target,
                                        int64_t elements, kerf_dtype_t from,
                                        kerf_dtype_t to, int64_t alignment);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CONVSTEPS_H
