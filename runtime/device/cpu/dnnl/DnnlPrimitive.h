//===- DnnlPrimitive.h - one library call as oneDNN primitives --*- C++ -*-===//
//
// Every operand is a strided view: logical dimensions, strides and an offset.
// DnnlCall.cpp has the shared code and matmul, DnnlWindows.cpp convolution and
// pooling, DnnlNaN.cpp the calls in which oneDNN would lose NaN.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLPRIMITIVE_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLPRIMITIVE_H

#include "../OpenMP.h"
#include "DnnlCall.h"
#include "DnnlPostOps.h"
#include "KnownBounds.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <variant>

namespace kerf::rt {

/// A strided view of an operand, in oneDNN's order of dimensions.
struct View {
  Shape dims, strides;
  int64_t offset = 0;
};

inline dnnl_data_type_t dataType(kerf_dtype_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return dnnl_f32;
  case KERF_BF16:
    return dnnl_bf16;
  case KERF_F16:
    return dnnl_f16;
  default:
    throw Error(KERF_BAD_PACKAGE,
                cat("library calls do not take ", kerf_dtype_name(dtype)));
  }
}

// `dims` in the manifest's order. A dimension that repeats has size 1. The
// stride of a dimension of size 1 is always that of a dense tensor: oneDNN
// distinguishes layouts by all strides, and for an unexpected one takes slow
// code, which reads second tensors of post-ops wrongly.
inline View viewOf(const Operand &operand, const Shape &dims) {
  View view{dims, operand.strides, operand.offset};
  if (view.strides.empty()) {
    view.strides = denseStrides(dims);
    if (operand.transpose) {
      size_t last = dims.size() - 1;
      view.strides[last - 1] = 1;
      view.strides[last] = dims[last - 1];
    }
  }
  for (size_t d = dims.size(); d-- > 0;) {
    if (view.strides[d] == 0)
      view.dims[d] = 1;
    if (view.dims[d] == 1)
      view.strides[d] = d + 1 == dims.size()
                            ? 1
                            : mulChecked(std::max<int64_t>(view.dims[d + 1], 1),
                                         view.strides[d + 1]);
  }
  return view;
}

/// Whether the second tensor of a post-op has the layout that oneDNN assumes:
/// that of dst, or, if it is broadcast, dense in dst's order of dimensions.
/// Its fast code only looks at sizes.
inline bool liesAs(const View &dst, const View &operand) {
  bool isFull = operand.dims == dst.dims;
  for (size_t d = 0; d < dst.dims.size(); ++d) {
    if (operand.dims[d] == 1)
      continue;
    int64_t expected = 1;
    for (size_t inner = 0; inner < dst.dims.size(); ++inner)
      if (dst.dims[inner] != 1 && dst.strides[inner] < dst.strides[d])
        expected = mulChecked(expected, operand.dims[inner]);
    if (operand.strides[d] != (isFull ? dst.strides[d] : expected))
      return false;
  }
  return true;
}

/// Whether dimensions lie in memory in their order, the last innermost.
inline bool isInOrder(const View &view) {
  int64_t outer = std::numeric_limits<int64_t>::max();
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (view.dims[d] == 1)
      continue;
    if (view.strides[d] > outer)
      return false;
    outer = view.strides[d];
  }
  return true;
}

/// Whether an operand repeats along all dimensions but `channel`, or along
/// none.
inline bool isFullOrPerChannel(const View &dst, const View &operand,
                               size_t channel) {
  bool repeats = true;
  for (size_t d = 0; d < dst.dims.size(); ++d)
    repeats &= d == channel || operand.dims[d] == 1;
  return repeats || operand.dims == dst.dims;
}

/// Elements from the first to one past the last that the view touches.
inline int64_t extent(const View &view) {
  int64_t last = view.offset;
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (view.dims[d] == 0)
      return 0;
    last = addChecked(last, mulChecked(view.dims[d] - 1, view.strides[d]));
  }
  return addChecked(last, 1);
}

inline dnnl_memory_desc_t descOf(const View &view, kerf_dtype_t dtype) {
  dnnl_memory_desc_t desc;
  if (view.dims.size() > DNNL_MAX_NDIMS)
    throw Error(KERF_BAD_PACKAGE, "too many dimensions for a library call");
  Dnnl::check(Dnnl::get().dnnl_memory_desc_init_by_strides(
                  &desc, static_cast<int>(view.dims.size()), view.dims.data(),
                  dataType(dtype), view.strides.data()),
              "the layout of an operand");
  return desc;
}

inline dnnl_memory_desc_t anyDesc(const Shape &dims, kerf_dtype_t dtype) {
  dnnl_memory_desc_t desc;
  Dnnl::check(Dnnl::get().dnnl_memory_desc_init_by_tag(
                  &desc, static_cast<int>(dims.size()), dims.data(),
                  dataType(dtype), dnnl_format_tag_any),
              "the layout of weights");
  return desc;
}

// [batch, spatial.., channel] -> [batch, channel, spatial..].
inline View channelsFirst(View view) {
  auto rotate = [](Shape &s) {
    std::rotate(s.begin() + 1, s.end() - 1, s.end());
  };
  rotate(view.dims);
  rotate(view.strides);
  return view;
}

class DnnlCall : public LibraryCall {
public:
  DnnlCall(const LibraryDesc &desc, DnnlContext &context, Device &device,
           CpuPackCache &cache, KnownBounds &known,
           const std::function<ParameterView(int64_t)> &parameter,
           int32_t threads)
      : desc(desc), context(context), device(device), cache(cache),
        known(known), parameter(parameter), threads(threads),
        primitiveDesc(nullptr, nullptr) {
    takeThreads();
    // oneDNN has fast code for most chains of post-ops, not for all: a matmul
    // of one row with a second tensor would run its reference loops, 100 times
    // slower. Then the longest fast chain is fused, and the rest runs after it,
    // in place. A sum reads the old content of dst, so the main primitive must
    // compute it.
    losing = firstThatLosesNaN();
    size_t min = !desc.postOps.empty() && desc.postOps[0].kind == "sum";
    for (bool slowToo : {false, true}) {
      allowReference = slowToo;
      fused = desc.postOps.size();
      while (true) {
        if (build())
          return;
        if (fused == min)
          break;
        --fused;
      }
    }
    throw Error(KERF_UNSUPPORTED_HOST, "oneDNN has no code for this call");
  }

  int64_t scratchBytes() const override { return scratchSize; }

  void run(void *const *buffers, void *scratch) override {
    takeThreads();
    const Dnnl &dnnl = Dnnl::get();
    for (const Binding &b : bindings)
      dnnl.dnnl_memory_set_data_handle(
          b.memory, static_cast<char *>(buffers[b.buffer]) + b.offsetBytes);
    for (const Scratch &s : scratches)
      dnnl.dnnl_memory_set_data_handle(s.memory,
                                       static_cast<char *>(scratch) + s.offset);
    if (steps.empty())
      return;
    Bounds bounds = boundsOf(buffers, false);
    if (losesNaN() && bounds.beforeLoss > largestSafe)
      bounds = boundsOf(buffers, true);
    if (losesNaN() && bounds.beforeLoss > largestSafe)
      runKeepingNaN(buffers);
    else
      for (const Step &step : steps)
        execute(step);
    noteResult(buffers, bounds);
  }

private:
  struct Binding {
    dnnl_memory_t memory;
    int64_t buffer, offsetBytes;
  };

  /// One primitive with its arguments.
  struct Step {
    DnnlHandle<dnnl_primitive_t> primitive{nullptr, nullptr};
    std::vector<dnnl_exec_arg_t> args;
  };

  /// oneDNN asks OpenMP how many threads the caller's team has, when it chooses
  /// blocks and memory and when it runs: the answers must be the same.
  void takeThreads() const {
    const OpenMP &omp = OpenMP::get();
    if (omp.available())
      omp.setNumThreads(threads);
  }

  void execute(const Step &step) {
    dnnl_status_t status = Dnnl::get().dnnl_primitive_execute(
        step.primitive.get(), context.stream.get(),
        static_cast<int>(step.args.size()), step.args.data());
    if (status != dnnl_success)
      throw Error(KERF_PROGRAM_FAILURE,
                  cat("oneDNN failed with status ", status), desc.node);
  }

  /// Build everything with the first `fused` post-ops in the main primitive;
  /// false, with nothing done, if oneDNN has only reference code for that.
  bool build() {
    return desc.kind == LibraryDesc::Matmul ? buildMatmul()
           : desc.kind == LibraryDesc::Pool ? buildPool()
                                            : buildConv();
  }
  bool buildMatmul();
  /// Whether the matrix on the right, in the layout that was chosen, has rows
  /// that map to the same cache sets; then `weights` becomes a layout where
  /// they do not.
  bool spreadRows(dnnl_memory_desc_t &weights) const;
  void flattenBatch(Shape &batch, int64_t &m) const;
  bool buildConv();
  struct ConvTensors;
  bool buildForwardConv(const ConvTensors &tensors);
  bool buildConvGradient(const ConvTensors &tensors);
  DnnlHandle<dnnl_primitive_desc_t>
  describeForwardConv(const ConvTensors &tensors,
                      const dnnl_memory_desc_t &yDesc);
  /// Whether a convolution is faster on copies with channels in blocks.
  bool conflictsInCache(const View &x, const View &y) const;
  bool buildPool();
  /// The post-ops of the main primitive: the first `fused`, up to one whose
  /// second tensor has another layout than oneDNN assumes, or that would use
  /// another one's constants. addTail() does the rest.
  std::vector<PostOp>
  fusedOps(const View &dst,
           const std::function<View(const Operand &)> &viewOfPostOp);
  /// The attributes of the main primitive, which computes these post-ops; those
  /// with a second tensor are added to `binaries`, which refer to `mainOps`.
  DnnlHandle<dnnl_primitive_attr_t>
  mainAttributes(const std::vector<PostOp> &mainOps,
                 const std::function<View(const Operand &)> &viewOfPostOp,
                 std::vector<BinaryPostOp> &binaries) const;
  /// Chooses the main primitive; addMain() makes it the next step.
  bool create(const void *opDesc, dnnl_primitive_attr_t attr,
              const_dnnl_primitive_desc_t hint = nullptr);
  void addMain() {
    addStep(primitiveDesc.get());
    mainStep = steps.size() - 1;
  }
  /// Runs the post-ops that were not fused on `dst`, in place.
  void addTail(const Operand &dst, const View &view,
               const std::function<View(const Operand &)> &viewOfPostOp);
  void addStep(dnnl_primitive_desc_t primitiveDesc);
  /// Binds an operand under `arg`: a buffer at each call, or a parameter now.
  void bind(int arg, const Operand &operand, const View &view,
            kerf_dtype_t dtype);
  /// Makes the main primitive the next step and binds its weights, reordered to
  /// its layout: a parameter now, a buffer by a step of its own in front.
  void addMainWithWeights(const Operand &operand, const View &view);
  /// Copies weights into the layout that a call needs. Pages of a mapped file
  /// are released slab by slab, so that weights are not in memory twice.
  void pack(const dnnl_memory_desc_t &plain, void *from, bool isMapped,
            const dnnl_memory_desc_t &wanted, void *to);
  void reorder(const dnnl_memory_desc_t &plain, void *from,
               const dnnl_memory_desc_t &wanted, void *to);
  /// A step that copies from one layout to another; one side is an operand,
  /// the other scratch memory, whose handle is returned.
  dnnl_memory_t addReorder(const dnnl_memory_desc_t &from,
                           const dnnl_memory_desc_t &to, const Operand &operand,
                           const View &view, bool operandIsSource);
  /// Memory in the scratch of the call, with an address at each run.
  dnnl_memory_t scratchMemory(const dnnl_memory_desc_t &memoryDesc);
  void addArg(int arg, DnnlHandle<dnnl_memory_t> memory);
  void finish(const std::vector<BinaryPostOp> &binaries, const View &dst,
              const std::function<View(const Operand &)> &viewOfPostOp);

  // What is done where oneDNN would lose NaN (DnnlNaN.cpp).
  size_t firstThatLosesNaN() const;
  bool losesNaN() const { return losing < desc.postOps.size(); }
  /// The bound of an operand: known for a parameter, different in each run for
  /// a buffer. 0 if there is no operand.
  struct Watched {
    double bound = 0;
    int64_t buffer = -1, offsetBytes = 0, elements = 0;
    kerf_dtype_t dtype = KERF_F32;
  };
  /// The largest |x| that can occur: before the last post-op that loses NaN, at
  /// any place, and in the result.
  struct Bounds {
    double beforeLoss = 0, largest = 0, result = 0;
  };
  static constexpr double largestSafe = 8.5e37; // 2^126
  Watched watch(const Operand &operand, const View &view, kerf_dtype_t dtype);
  void watchPostOps(const View &dst,
                    const std::function<View(const Operand &)> &viewOfPostOp);
  double boundOf(const ParameterView &part, int64_t elements,
                 kerf_dtype_t dtype) const;
  double boundOf(const Watched &operand, void *const *buffers, bool look) const;
  /// `look`: scan the numbers, instead of using known bounds.
  Bounds boundsOf(void *const *buffers, bool look) const;
  void noteResult(void *const *buffers, const Bounds &bounds);
  void runKeepingNaN(void *const *buffers);
  void makeStepWithoutLoss();
  void addScratchpad();
  /// The parameter with `data` at the view's offset; checks that it is inside.
  ParameterView parameterAt(const Operand &operand, const View &view,
                            kerf_dtype_t dtype) const;

  LibraryDesc desc;
  DnnlContext &context;
  Device &device;
  CpuPackCache &cache;
  KnownBounds &known;
  const std::function<ParameterView(int64_t)> &parameter; ///< while building
  int32_t threads;
  size_t fused = 0; ///< post-ops in the main primitive
  bool allowReference = false;
  DnnlHandle<dnnl_primitive_desc_t> primitiveDesc; ///< of the main primitive
  std::vector<Step> steps; ///< none: no element to compute
  std::vector<DnnlHandle<dnnl_memory_t>> memories;
  struct Scratch {
    dnnl_memory_t memory;
    int64_t offset;
  };
  std::vector<Scratch> scratches;
  std::vector<std::shared_ptr<void>>
      owners; ///< of parameters and packed weights
  std::vector<Binding> bindings;
  int64_t scratchSize = 0;

  size_t losing = 0;    ///< the first post-op that loses NaN
  size_t mainStep = 0;  ///< of steps
  bool blocked = false; ///< the step behind it copies the result to its place
  std::variant<dnnl_matmul_desc_t, dnnl_convolution_desc_t,
               dnnl_pooling_v2_desc_t>
      mainOp;
  Watched watchedLhs, watchedRhs, watchedBias, watchedDst;
  double terms = 1; ///< of a sum
  View dstView;
  /// The second tensor of a post-op; without dimensions where there is none.
  struct SecondTensor {
    View view; ///< with strides of 0 where it repeats
    dnnl_memory_desc_t desc;
    const void *parameter = nullptr;
    Watched watched;
  };
  std::vector<SecondTensor> seconds; ///< of all post-ops
  Step withoutLoss; ///< the main primitive up to the first that loses NaN
  std::unique_ptr<DeviceMemory> withoutLossScratch;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLPRIMITIVE_H
