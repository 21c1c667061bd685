//===- CudnnCall.cpp - convolutions and pools by cuDNN --------------------===//
//
// A call is one operation graph: the convolution, then bias, added tensor and
// ReLU as pointwise operations on virtual tensors. The heuristics give engine
// configurations, best first; the first ones that make a plan are timed, and
// the number of the fastest is kept in the cache. If cuDNN has no engine for
// the whole graph the convolution runs alone and the pointwise operations are a
// second graph, in place.
//
//===----------------------------------------------------------------------===//
#include "CudnnCall.h"

#include "ConvPlan.h"
#include "CudnnPlans.h"
#include "Driver.h"
#include "MatmulCall.h"

#include <algorithm>

using namespace kerf::rt;

DnnContext::DnnContext(CudaDeviceBase &dev) : device(dev) {
  library.check(library.create(&handle), "cudnnCreate");
  library.check(library.setStream(handle, device.computeStream()),
                "cudnnSetStream");
  cache = std::make_unique<AlgorithmCache>(
      cat("cudnn-", library.getVersion ? library.getVersion() : 0),
      device.gpuName());
}

DnnContext::~DnnContext() {
  if (handle)
    library.destroy(handle);
}

void *DnnContext::room(int64_t bytes) {
  if (!workspace || workspace->bytes < bytes)
    workspace = device.allocateTemporary(bytes, "the workspace of cuDNN");
  return workspace->data;
}

namespace {
constexpr int64_t mostWorkspace = int64_t(512) << 20;

using Handle = DnnDescriptor;

int typeOf(kerf_dtype_t dtype) { return dnnType(dtype); }

enum Id : int64_t { X = 1, W, Y, Bias, Added, Mid0, Mid1, Mid2 };

/// A graph with a plan to execute it.
struct Plan {
  std::vector<Handle> parts;   ///< everything that must outlive the plan
  std::vector<DnnPlan> chosen; ///< one
};

class CudnnCall : public LibraryCall {
public:
  CudnnCall(DnnContext &context, const LibraryDesc &given,
            const std::function<ParameterView(int64_t)> &parameter)
      : context(context), library(context.library), desc(given),
        conv(planConv(desc)) {
    empty =
        numElements(conv.image.dims) == 0 || numElements(conv.result.dims) == 0;
    if (empty)
      return;
    const Operand *operands[] = {&desc.lhs, &desc.rhs, &desc.bias, conv.added};
    for (const Operand *operand : operands)
      if (operand && operand->kind == Operand::Param)
        held[operand] = parameter(operand->index);
    bool points = conv.bias || conv.added || conv.relu;
    if (!points || !build(true, points))
      splitGraph(points);
    reserve();
    packParameters();
  }

  int64_t scratchBytes() const override { return 0; } // the context's

  void run(void *const *buffers, void *) override {
    if (empty)
      return;
    std::map<int64_t, void *> tensors;
    tensors[X] = place(*conv.imageOperand, desc.dtype, buffers);
    tensors[Y] = place(*conv.resultOperand, resultType(), buffers);
    if (conv.bias)
      tensors[Bias] = place(*conv.bias, desc.dstDtype, buffers);
    if (conv.added)
      tensors[Added] = place(*conv.added, desc.dstDtype, buffers);
    void *stored = nullptr;
    if (conv.weightsOperand) {
      stored = packed ? packed->data
                      : place(*conv.weightsOperand, weightType(), buffers);
      tensors[W] = stored;
      if (conv.reorders && !packed) {
        tensors[W] = context.workspace->data;
        if (desc.kind != LibraryDesc::ConvWeightGradient)
          reorder(conv.storedWeights, stored, conv.weights, tensors[W]);
      }
    }
    for (const Plan &plan : plans)
      execute(plan, tensors);
    if (desc.kind == LibraryDesc::ConvWeightGradient && conv.reorders)
      reorder(conv.weights, tensors[W], conv.storedWeights, stored);
  }

private:
  kerf_dtype_t resultType() const {
    return desc.kind == LibraryDesc::Conv || desc.kind == LibraryDesc::Pool
               ? desc.dstDtype
               : desc.dtype;
  }
  kerf_dtype_t weightType() const {
    return desc.kind == LibraryDesc::ConvWeightGradient ? desc.dstDtype
                                                        : desc.dtype;
  }
  kerf_dtype_t imageType() const {
    return desc.kind == LibraryDesc::ConvInputGradient ? desc.dstDtype
                                                       : desc.dtype;
  }
  int computeType() const {
    return desc.dtype == KERF_F64 ? dnn::Double : dnn::Float;
  }

  void *place(const Operand &operand, kerf_dtype_t dtype,
              void *const *buffers) const {
    const void *base = operand.kind == Operand::Param ? held.at(&operand).data
                                                      : buffers[operand.index];
    return static_cast<char *>(const_cast<void *>(base)) +
           operand.offset * dtypeSize(dtype);
  }

  Handle tensor(int64_t id, const DnnTensor &t, int type, bool isVirtual) {
    Handle h(library, dnn::TensorDescriptor);
    h.setInt(dnn::TensorUniqueId, id);
    h.setEnum(dnn::TensorDataType, dnn::TypeDataType, type);
    h.setInt(dnn::TensorByteAlignment, 16);
    h.setInts(dnn::TensorDimensions, t.dims);
    h.setInts(dnn::TensorStrides, t.strides);
    if (isVirtual) {
      bool yes = true;
      h.set(dnn::TensorIsVirtual, dnn::TypeBoolean, &yes);
    }
    h.finalize("a tensor");
    return h;
  }

  // The convolution (or pool, or gradient) alone: `y` is its result.
  void addMain(Plan &p, std::vector<dnn::Descriptor> &ops, bool virtualResult) {
    auto spatial = static_cast<int64_t>(conv.pre.size());
    p.parts.push_back(tensor(X, conv.image, typeOf(imageType()), false));
    size_t x = p.parts.size() - 1;
    p.parts.push_back(tensor(
        virtualResult ? Mid0 : Y, conv.result,
        virtualResult ? computeType() : typeOf(resultType()), virtualResult));
    size_t y = p.parts.size() - 1;
    if (desc.kind == LibraryDesc::Pool) {
      Handle d(library, dnn::ResampleDescriptor);
      bool max = desc.algorithm == "max";
      d.setEnum(dnn::ResampleMode, dnn::TypeResampleMode,
                max ? dnn::ResampleMax
                : desc.algorithm == "avg_include_padding"
                    ? dnn::ResampleAverageIncludePadding
                    : dnn::ResampleAverageExcludePadding);
      d.setEnum(dnn::ResampleCompType, dnn::TypeDataType, computeType());
      d.setEnum(dnn::ResamplePaddingMode, dnn::TypePaddingMode,
                max ? dnn::NegInfPadding : dnn::ZeroPadding);
      d.setInt(dnn::ResampleSpatialDims, spatial);
      d.setInts(dnn::ResampleWindowDims, conv.window);
      d.setInts(dnn::ResamplePrePaddings, conv.pre);
      d.setInts(dnn::ResamplePostPaddings, conv.post);
      d.setInts(dnn::ResampleStrides, conv.strides);
      d.finalize("a pool");
      p.parts.push_back(std::move(d));
      Handle op(library, dnn::ResampleForwardDescriptor);
      op.setHandle(dnn::ResampleForwardX, p.parts[x]);
      op.setHandle(dnn::ResampleForwardY, p.parts[y]);
      op.setHandle(dnn::ResampleForwardDesc, p.parts.back());
      op.finalize("a pool");
      ops.push_back(op.get());
      p.parts.push_back(std::move(op));
      return;
    }
    p.parts.push_back(tensor(W, conv.weights, typeOf(weightType()), false));
    size_t w = p.parts.size() - 1;
    Handle d(library, dnn::ConvolutionDescriptor);
    d.setEnum(dnn::ConvolutionCompType, dnn::TypeDataType, computeType());
    d.setEnum(dnn::ConvolutionMode, dnn::TypeConvolutionMode,
              dnn::CrossCorrelation);
    d.setInt(dnn::ConvolutionSpatialDims, spatial);
    d.setInts(dnn::ConvolutionDilations, conv.dilations);
    d.setInts(dnn::ConvolutionFilterStrides, conv.strides);
    d.setInts(dnn::ConvolutionPrePaddings, conv.pre);
    d.setInts(dnn::ConvolutionPostPaddings, conv.post);
    d.finalize("a convolution");
    p.parts.push_back(std::move(d));
    size_t c = p.parts.size() - 1;
    static constexpr struct {
      LibraryDesc::Kind kind;
      int type, alpha, beta, conv, w, x, y;
    } forms[] = {
        {LibraryDesc::Conv, dnn::ConvolutionForwardDescriptor,
         dnn::ForwardAlpha, dnn::ForwardBeta, dnn::ForwardConvDesc,
         dnn::ForwardW, dnn::ForwardX, dnn::ForwardY},
        {LibraryDesc::ConvInputGradient, dnn::ConvolutionBackwardDataDescriptor,
         dnn::BackwardDataAlpha, dnn::BackwardDataBeta,
         dnn::BackwardDataConvDesc, dnn::BackwardDataW, dnn::BackwardDataDx,
         dnn::BackwardDataDy},
        {LibraryDesc::ConvWeightGradient,
         dnn::ConvolutionBackwardFilterDescriptor, dnn::BackwardFilterAlpha,
         dnn::BackwardFilterBeta, dnn::BackwardFilterConvDesc,
         dnn::BackwardFilterDw, dnn::BackwardFilterX, dnn::BackwardFilterDy}};
    for (const auto &form : forms) {
      if (form.kind != desc.kind)
        continue;
      Handle op(library, form.type);
      op.setHandle(form.conv, p.parts[c]);
      op.setHandle(form.w, p.parts[w]);
      op.setHandle(form.x, p.parts[x]);
      op.setHandle(form.y, p.parts[y]);
      if (desc.dtype == KERF_F64) {
        double one = 1, zero = 0;
        op.set(form.alpha, dnn::TypeDouble, &one);
        op.set(form.beta, dnn::TypeDouble, &zero);
      } else {
        float one = 1, zero = 0;
        op.set(form.alpha, dnn::TypeFloat, &one);
        op.set(form.beta, dnn::TypeFloat, &zero);
      }
      op.finalize("a convolution");
      ops.push_back(op.get());
      p.parts.push_back(std::move(op));
    }
  }

  // Bias, added tensor, ReLU on `from`; the last one writes Y.
  void addPoints(Plan &p, std::vector<dnn::Descriptor> &ops, int64_t from) {
    struct Step {
      int mode;
      int64_t operand;
      DnnTensor other;
    };
    std::vector<Step> steps;
    if (conv.bias) {
      DnnTensor b{Shape(conv.result.dims.size(), 1), {}};
      b.dims[1] = desc.outChannels;
      b.strides = Shape(b.dims.size(), 1);
      b.strides[0] = desc.outChannels;
      for (size_t d = 2; d < b.dims.size(); ++d)
        b.strides[d] = desc.outChannels;
      steps.push_back({dnn::PointwiseAdd, Bias, b});
    }
    if (conv.added)
      steps.push_back({dnn::PointwiseAdd, Added, conv.addedTensor});
    if (conv.relu)
      steps.push_back({dnn::PointwiseReluForward, 0, {}});
    int64_t in = from;
    for (size_t i = 0; i < steps.size(); ++i) {
      bool last = i + 1 == steps.size();
      int64_t out =
          last ? static_cast<int64_t>(Y) : Mid1 + static_cast<int64_t>(i);
      Handle d(library, dnn::PointwiseDescriptor);
      d.setEnum(dnn::PointwiseMode, dnn::TypePointwiseMode, steps[i].mode);
      d.setEnum(dnn::PointwiseMathPrecision, dnn::TypeDataType, computeType());
      d.finalize("a pointwise operation");
      p.parts.push_back(std::move(d));
      size_t point = p.parts.size() - 1;
      p.parts.push_back(tensor(in, conv.result,
                               in == Y ? typeOf(resultType()) : computeType(),
                               in != Y));
      size_t x = p.parts.size() - 1;
      // In place: the same tensor with another name.
      p.parts.push_back(tensor(last && from == Y ? Mid2 + 1 : out, conv.result,
                               last ? typeOf(resultType()) : computeType(),
                               !last));
      size_t y = p.parts.size() - 1;
      Handle op(library, dnn::PointwiseOperationDescriptor);
      op.setHandle(dnn::PointwiseOperationDesc, p.parts[point]);
      op.setHandle(dnn::PointwiseX, p.parts[x]);
      op.setHandle(dnn::PointwiseY, p.parts[y]);
      if (steps[i].operand) {
        p.parts.push_back(tensor(steps[i].operand, steps[i].other,
                                 typeOf(desc.dstDtype), false));
        op.setHandle(dnn::PointwiseB, p.parts.back());
      }
      op.finalize("a pointwise operation");
      ops.push_back(op.get());
      p.parts.push_back(std::move(op));
      in = out;
    }
  }

  bool build(bool main, bool points) {
    Plan p;
    std::vector<dnn::Descriptor> ops;
    if (main)
      addMain(p, ops, points);
    if (points)
      addPoints(p, ops,
                main ? static_cast<int64_t>(Mid0) : static_cast<int64_t>(Y));
    Handle graph(library, dnn::OperationGraphDescriptor);
    graph.set(dnn::GraphHandle, dnn::TypeHandle, &context.handle);
    graph.set(dnn::GraphOps, dnn::TypeBackendDescriptor, ops.data(),
              static_cast<int64_t>(ops.size()));
    if (graph.tryFinalize() != dnn::Success)
      return false;
    p.parts.push_back(std::move(graph));
    if (!choosePlan(p, cat(main ? "m" : "", points ? "p" : "")))
      return false;
    plans.push_back(std::move(p));
    return true;
  }

  void splitGraph(bool points) {
    plans.clear();
    if (!build(true, false))
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("cuDNN has no engine for this ", desc.kindName()));
    if (points && !build(false, true))
      throw Error(
          KERF_UNSUPPORTED_HOST,
          cat("cuDNN has no engine for what follows this ", desc.kindName()));
  }

  /// Everything that the best engine depends on.
  std::string key(const std::string &form) const {
    std::string text =
        cat(desc.kindName(), " ", form, " ", kerf_dtype_name(desc.dtype), ">",
            kerf_dtype_name(desc.dstDtype), " g", desc.groups,
            conv.bias ? " bias" : "", conv.added ? " add" : "",
            conv.relu ? " relu" : "", desc.algorithm);
    for (const Shape *list :
         {&conv.image.dims, &conv.image.strides, &conv.weights.dims,
          &conv.result.dims, &conv.result.strides, &conv.pre, &conv.post,
          &conv.strides, &conv.dilations, &conv.window})
      text += " " + shapeString(*list);
    return text;
  }

  // The plan of one of the configurations that the heuristics give.
  bool choosePlan(Plan &p, const std::string &form) {
    std::vector<DnnPlan> made =
        makeDnnPlans(library, context.handle, p.parts.back(), mostWorkspace, 4);
    if (made.empty())
      return false;
    size_t best = 0;
    std::string name = key(form), known = context.cache->find(name);
    if (known.size() == 1 && static_cast<size_t>(known[0]) < made.size()) {
      best = static_cast<size_t>(known[0]);
    } else if (made.size() > 1) {
      best = measure(made);
      context.cache->set(name, std::string(1, static_cast<char>(best)));
    }
    p.chosen.push_back(std::move(made[best]));
    return true;
  }

  static int64_t extent(const DnnTensor &t) {
    int64_t last = 1;
    for (size_t d = 0; d < t.dims.size(); ++d)
      last += (t.dims[d] - 1) * t.strides[d];
    return last;
  }

  size_t measure(const std::vector<DnnPlan> &made) {
    std::map<int64_t, void *> tensors;
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    try {
      auto add = [&](int64_t id, int64_t elements) {
        memory.push_back(context.device.allocateTemporary(
            elements * 8, "timing of a convolution"));
        tensors[id] = memory.back()->data;
      };
      add(X, extent(conv.image));
      add(Y, extent(conv.result));
      if (conv.weightsOperand)
        add(W, extent(conv.weights));
      if (conv.bias)
        add(Bias, desc.outChannels);
      if (conv.added)
        add(Added, extent(conv.addedTensor));
      for (const DnnPlan &plan : made)
        context.room(plan.workspace + weightRoom());
    } catch (const Error &) {
      return 0;
    }
    size_t best = 0;
    double least = -1;
    for (size_t i = 0; i < made.size(); ++i) {
      double time = measureMilliseconds(context.device, [&] {
        return tryExecute(made[i], tensors) == dnn::Success;
      });
      if (time >= 0 && (least < 0 || time < least)) {
        least = time;
        best = i;
      }
    }
    return best;
  }

  /// Room for reordered weights at the beginning of the workspace.
  int64_t weightRoom() const {
    if (!conv.reorders)
      return 0;
    int64_t bytes = numElements(conv.weights.dims) * dtypeSize(weightType());
    return ceilDiv(bytes, 256) * 256;
  }

  void reserve() {
    int64_t most = 256;
    for (const Plan &plan : plans)
      most = std::max(most, plan.chosen[0].workspace);
    context.room(most + weightRoom());
  }

  // Weights that never change are brought into order now.
  void packParameters() {
    if (!conv.weightsOperand || !conv.reorders ||
        conv.weightsOperand->kind != Operand::Param)
      return;
    packed = context.device.allocateTemporary(numElements(conv.weights.dims) *
                                                  dtypeSize(weightType()),
                                              "reordered weights");
    reorder(conv.storedWeights,
            place(*conv.weightsOperand, weightType(), nullptr), conv.weights,
            packed->data);
  }

  void reorder(const DnnTensor &from, const void *src, const DnnTensor &to,
               void *dst) {
    auto describe = [&](const DnnTensor &t) {
      dnn::TensorDesc made = nullptr;
      library.check(library.createTensor(&made), "a tensor");
      std::vector<int> dims(t.dims.begin(), t.dims.end()),
          strides(t.strides.begin(), t.strides.end());
      library.check(library.setTensor(made, typeOf(weightType()),
                                      static_cast<int>(dims.size()),
                                      dims.data(), strides.data()),
                    "a tensor");
      return made;
    };
    dnn::TensorDesc a = describe(from), b = describe(to);
    double one64 = 1, zero64 = 0;
    float one = 1, zero = 0;
    bool f64 = weightType() == KERF_F64;
    dnn::Status status = library.transformTensor(
        context.handle, f64 ? static_cast<void *>(&one64) : &one, a, src,
        f64 ? static_cast<void *>(&zero64) : &zero, b, dst);
    library.destroyTensor(a);
    library.destroyTensor(b);
    library.check(status, "weights in another order");
  }

  dnn::Status tryExecute(const DnnPlan &plan,
                         const std::map<int64_t, void *> &tensors) {
    std::vector<int64_t> ids;
    std::vector<void *> pointers;
    for (auto [id, pointer] : tensors) {
      ids.push_back(id);
      pointers.push_back(pointer);
    }
    // The result of pointwise operations in place.
    ids.push_back(Mid2 + 1);
    pointers.push_back(tensors.at(Y));
    void *workspace =
        static_cast<char *>(context.workspace->data) + weightRoom();
    Handle pack(library, dnn::VariantPackDescriptor);
    auto count = static_cast<int64_t>(ids.size());
    pack.set(dnn::VariantPackUniqueIds, dnn::TypeInt64, ids.data(), count);
    pack.set(dnn::VariantPackDataPointers, dnn::TypeVoidPtr, pointers.data(),
             count);
    pack.set(dnn::VariantPackWorkspace, dnn::TypeVoidPtr, &workspace);
    pack.finalize("a variant pack");
    return library.execute(context.handle, plan.plan.get(), pack.get());
  }
  void execute(const Plan &plan, const std::map<int64_t, void *> &tensors) {
    library.check(tryExecute(plan.chosen[0], tensors), desc.kindName());
  }

  DnnContext &context;
  const Cudnn &library;
  LibraryDesc desc;
  ConvPlan conv;
  bool empty = false;
  std::map<const Operand *, ParameterView> held;
  std::vector<Plan> plans;
  std::unique_ptr<DeviceMemory> packed;
};
} // namespace

std::unique_ptr<LibraryCall> kerf::rt::makeCudnnCall(
    DnnContext &context, const LibraryDesc &desc,
    const std::function<ParameterView(int64_t)> &parameter) {
  return std::make_unique<CudnnCall>(context, desc, parameter);
}
