//===- CudnnCall.cpp - convolutions and pools by cuDNN --------------------===//
//
// Takes the first form of ConvSteps.h that cuDNN has engines for. For each of
// its graphs the first configurations that make a plan are timed at first load,
// and the name of the fastest is kept in the cache; later loads make only that
// plan.
//
//===----------------------------------------------------------------------===//
#include "CudnnCall.h"

#include "../driver/Driver.h"
#include "../matmul/MatmulCall.h"
#include "ConvSteps.h"

#include <algorithm>
#include <chrono>

using namespace kerf::rt;

namespace {
constexpr int64_t maxWorkspace = int64_t(512) << 20;
/// How many plans of a graph are timed.
constexpr size_t maxTimed = 4;
/// Engines that generate code take a second each; the best guess comes first.
constexpr std::chrono::seconds enoughTime(2);

int64_t aligned(int64_t bytes) { return ceilDiv(bytes, 256) * 256; }

dnn::Status execute(const DnnContext &context, const DnnPlan &plan,
                    const std::vector<int64_t> &ids,
                    const std::vector<void *> &pointers, void *workspace) {
  DnnDescriptor pack(context.library, dnn::VariantPackDescriptor);
  auto count = static_cast<int64_t>(ids.size());
  pack.set(dnn::VariantPackUniqueIds, dnn::TypeInt64, ids.data(), count);
  pack.set(dnn::VariantPackDataPointers, dnn::TypeVoidPtr, pointers.data(),
           count);
  pack.set(dnn::VariantPackWorkspace, dnn::TypeVoidPtr, &workspace);
  pack.finalize("a variant pack");
  return context.library.execute(context.ready(), plan.plan.get(), pack.get());
}
} // namespace

DnnContext::DnnContext(CudaDeviceBase &dev, bool allowTf32)
    : device(dev), tf32(allowTf32) {
  library.check(library.create(&handle), "cudnnCreate");
  cache = std::make_unique<AlgorithmCache>(
      cat("cudnn-", library.getVersion ? library.getVersion() : 0),
      device.gpuName());
}

DnnContext::~DnnContext() {
  plans.clear();
  if (handle)
    library.destroy(handle);
}

dnn::Handle DnnContext::ready() const {
  library.check(library.setStream(handle, device.computeStream()),
                "cudnnSetStream");
  return handle;
}

void *DnnContext::room(int64_t bytes) {
  if (!workspace || workspace->bytes < bytes)
    workspace = device.allocateTemporary(bytes, "the workspace of cuDNN");
  return workspace->data;
}

const DnnPlan *DnnContext::cast(int64_t elements, kerf_dtype_t from,
                                kerf_dtype_t to, int64_t alignment) {
  auto [it, isNew] =
      plans.try_emplace(cat("cast ", elements, " ", kerf_dtype_name(from), ">",
                            kerf_dtype_name(to), " a", alignment));
  if (isNew) {
    auto parts = describeCast(target(), elements, from, to, alignment);
    if (!parts.empty())
      if (auto plan = makeBestDnnPlan(target(), parts.back(), maxWorkspace, 0))
        it->second.reset(new ReadyPlan{std::move(parts), std::move(*plan)});
  }
  return it->second ? &it->second->plan : nullptr;
}

namespace {
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
    std::vector<ConvForm> forms = convForms(desc, conv);
    if (std::none_of(forms.begin(), forms.end(),
                     [&](ConvForm form) { return take(form); }))
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("cuDNN has no engine for this ", desc.kindName(), " of ",
                      kerf_dtype_name(desc.dtype), ", result ",
                      kerf_dtype_name(desc.dstDtype)));
    reserve();
    readyParameters();
  }

  int64_t scratchBytes() const override { return 0; } // the context's

  void run(void *const *buffers, void *) override {
    if (empty)
      return;
    for (size_t i = 0; i < all.steps.size(); ++i)
      if (!ready || !all.steps[i].ofWeights)
        perform(i, buffers);
  }

private:
  // Choosing.

  bool take(ConvForm form) {
    auto steps = describeConv(context.target(), desc, conv, form, context.tf32);
    if (!steps)
      return false;
    all = std::move(*steps);
    plans.assign(all.steps.size(), nullptr);
    // Graphs that may have no engine come first.
    for (ConvStep::Kind kind : {ConvStep::Graph, ConvStep::Cast})
      for (size_t i = 0; i < plans.size(); ++i) {
        ConvStep &step = all.steps[i];
        if (step.kind != kind)
          continue;
        plans[i] = kind == ConvStep::Graph
                       ? readyGraph(step, form.fallback)
                       : context.cast(step.elements, step.fromType, step.toType,
                                      step.alignment);
        if (!plans[i])
          return false;
      }
    return true;
  }

  /// Everything that the best engine depends on. The version number changes
  /// when the meaning of the entry, or of the list of candidates, changes.
  std::string key(const ConvStep &step) const {
    std::string text = cat(
        "3 ", desc.kindName(), " ", step.name, " ", kerf_dtype_name(desc.dtype),
        ">", kerf_dtype_name(desc.dstDtype), context.tf32 ? " tf32" : "", " g",
        desc.groups, conv.bias ? " bias" : "", conv.added ? " add" : "",
        conv.relu ? " relu" : "", desc.algorithm);
    for (const Shape *list :
         {&conv.image.dims, &conv.image.strides, &conv.weights.dims,
          &conv.result.dims, &conv.result.strides, &conv.addedTensor.strides,
          &conv.pre, &conv.post, &conv.strides, &conv.dilations, &conv.window})
      text += " " + shapeString(*list);
    return text;
  }

  const DnnPlan *readyGraph(ConvStep &step, bool fallback) {
    std::string name = key(step);
    auto it = context.plans.find(name);
    if (it == context.plans.end()) {
      auto plan = choosePlan(step, name, fallback);
      if (!plan)
        return nullptr;
      auto ready = std::make_unique<DnnContext::ReadyPlan>(
          DnnContext::ReadyPlan{std::move(step.parts), std::move(*plan)});
      it = context.plans.emplace(name, std::move(ready)).first;
    }
    return &it->second->plan;
  }

  std::optional<DnnPlan> choosePlan(const ConvStep &step,
                                    const std::string &name, bool fallback) {
    using Clock = std::chrono::steady_clock;
    std::vector<int> modes = {dnn::HeuristicsA};
    if (fallback)
      modes.push_back(dnn::HeuristicsFallback);
    std::string known = context.cache->find(name);
    DnnTarget target = context.target();
    for (int mode : modes) {
      if (known.empty())
        break;
      for (DnnConfig &config :
           findDnnConfigs(target, step.parts.back(), mode, step.refused))
        if (config.name == known)
          if (auto plan = makeDnnPlan(target, config, maxWorkspace))
            return plan;
    }
    for (int mode : modes) {
      std::vector<DnnPlan> made;
      std::vector<std::string> names;
      auto begin = Clock::now();
      for (DnnConfig &config :
           findDnnConfigs(target, step.parts.back(), mode, step.refused)) {
        if (made.size() == maxTimed ||
            (!made.empty() && Clock::now() - begin > enoughTime))
          break;
        if (auto plan = makeDnnPlan(target, config, maxWorkspace)) {
          made.push_back(std::move(*plan));
          names.push_back(config.name);
        }
      }
      if (made.empty())
        continue;
      size_t best = made.size() > 1 ? measure(step, made) : 0;
      context.cache->set(name, names[best]);
      return std::move(made[best]);
    }
    return std::nullopt;
  }

  size_t measure(const ConvStep &step, const std::vector<DnnPlan> &made) {
    std::map<ConvPlace, std::unique_ptr<DeviceMemory>> memory;
    std::vector<int64_t> ids;
    std::vector<void *> pointers;
    try {
      for (auto [id, place] : step.bound) {
        auto &there = memory[place];
        if (!there)
          there = context.device.allocateTemporary(all.bytes.at(place),
                                                   "timing of a convolution");
        ids.push_back(id);
        pointers.push_back(there->data);
      }
      for (const DnnPlan &plan : made)
        context.room(std::max<int64_t>(plan.workspace, 256));
    } catch (const Error &) {
      return 0; // no room to measure: the library's first guess
    }
    size_t best = 0;
    double min = -1;
    for (size_t i = 0; i < made.size(); ++i) {
      double time = measureMilliseconds(context.device, [&] {
        return execute(context, made[i], ids, pointers,
                       context.workspace->data) == dnn::Success;
      });
      if (time >= 0 && (min < 0 || time < min)) {
        min = time;
        best = i;
      }
    }
    return best;
  }

  // Memory.

  void reserve() {
    for (auto [place, bytes] : all.bytes)
      if (isScratch(place)) {
        offsets[place] = scratch;
        scratch += aligned(bytes);
      }
    int64_t max = 256;
    for (const DnnPlan *plan : plans)
      if (plan)
        max = std::max(max, plan->workspace);
    context.room(scratch + max);
  }

  // Weights that never change are made ready now.
  void readyParameters() {
    if (!conv.weightsOperand || conv.weightsOperand->kind != Operand::Param)
      return;
    const ConvStep *last = nullptr;
    for (const ConvStep &step : all.steps)
      if (step.ofWeights)
        last = &step;
    if (!last)
      return;
    readyPlace = last->to;
    ready = context.device.allocateTemporary(all.bytes.at(readyPlace),
                                             "reordered weights");
    for (size_t i = 0; i < all.steps.size(); ++i)
      if (all.steps[i].ofWeights)
        perform(i, nullptr);
  }

  void *place(ConvPlace where, void *const *buffers) const {
    auto in = [&](const Operand &operand, kerf_dtype_t dtype) -> void * {
      const void *base = operand.kind == Operand::Param
                             ? held.at(&operand).data
                             : buffers[operand.index];
      return static_cast<char *>(const_cast<void *>(base)) +
             operand.offset * dtypeSize(dtype);
    };
    bool ofImage = desc.kind == LibraryDesc::ConvInputGradient,
         ofWeights = desc.kind == LibraryDesc::ConvWeightGradient;
    switch (where) {
    case ConvPlace::Image:
      return in(*conv.imageOperand, ofImage ? desc.dstDtype : desc.dtype);
    case ConvPlace::Result:
      return in(*conv.resultOperand,
                ofImage || ofWeights ? desc.dtype : desc.dstDtype);
    case ConvPlace::StoredWeights:
      return in(*conv.weightsOperand, ofWeights ? desc.dstDtype : desc.dtype);
    case ConvPlace::Bias:
      return in(*conv.bias, desc.dstDtype);
    case ConvPlace::Added:
      return in(*conv.added, desc.dstDtype);
    default:
      return ready && where == readyPlace
                 ? ready->data
                 : static_cast<char *>(context.workspace->data) +
                       offsets.at(where);
    }
  }

  // Work.

  void perform(size_t number, void *const *buffers) {
    const ConvStep &step = all.steps[number];
    if (step.kind == ConvStep::Reorder)
      return reorder(step, buffers);
    std::vector<int64_t> ids;
    std::vector<void *> pointers;
    auto bind = [&](int64_t id, ConvPlace where, int64_t offset) {
      ids.push_back(id);
      pointers.push_back(static_cast<char *>(place(where, buffers)) + offset);
    };
    if (step.kind == ConvStep::Cast) {
      bind(1, step.from, step.first * dtypeSize(step.fromType));
      bind(2, step.to, step.first * dtypeSize(step.toType));
    }
    for (auto [id, where] : step.bound)
      bind(id, where, 0);
    library.check(
        execute(context, *plans[number], ids, pointers,
                static_cast<char *>(context.workspace->data) + scratch),
        desc.kindName());
  }

  void reorder(const ConvStep &step, void *const *buffers) {
    auto describe = [&](ConvPlace where) {
      bool asStored = where == ConvPlace::StoredWeights ||
                      where == ConvPlace::WideStoredWeights;
      const DnnTensor &t = asStored ? conv.storedWeights : conv.weights;
      dnn::TensorDesc made = nullptr;
      library.check(library.createTensor(&made), "a tensor");
      std::vector<int> dims(t.dims.begin(), t.dims.end()),
          strides(t.strides.begin(), t.strides.end());
      library.check(library.setTensor(made, dnnType(step.fromType),
                                      static_cast<int>(dims.size()),
                                      dims.data(), strides.data()),
                    "a tensor");
      return made;
    };
    dnn::TensorDesc a = describe(step.from), b = describe(step.to);
    double one64 = 1, zero64 = 0;
    float one = 1, zero = 0;
    bool f64 = step.fromType == KERF_F64;
    dnn::Status status = library.transformTensor(
        context.ready(), f64 ? static_cast<void *>(&one64) : &one, a,
        place(step.from, buffers), f64 ? static_cast<void *>(&zero64) : &zero,
        b, place(step.to, buffers));
    library.destroyTensor(a);
    library.destroyTensor(b);
    library.check(status, "weights in another order");
  }

  DnnContext &context;
  const Cudnn &library;
  LibraryDesc desc;
  ConvPlan conv;
  bool empty = false;
  std::map<const Operand *, ParameterView> held;
  ConvSteps all;
  std::vector<const DnnPlan *> plans; ///< one per step; of a reorder null
  std::map<ConvPlace, int64_t> offsets;
  int64_t scratch = 0;
  std::unique_ptr<DeviceMemory> ready; ///< weights that never change
  ConvPlace readyPlace{};
};
} // namespace

std::unique_ptr<LibraryCall> kerf::rt::makeCudnnCall(
    DnnContext &context, const LibraryDesc &desc,
    const std::function<ParameterView(int64_t)> &parameter) {
  return std::make_unique<CudnnCall>(context, desc, parameter);
}
