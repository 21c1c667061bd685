//===- DnnlCall.cpp - matmul, convolution and pooling by oneDNN -----------===//
//
// Every operand is a strided view: logical dimensions, strides and an offset.
// oneDNN sees it as a memory descriptor over (buffer + offset); a stride of 0
// is a dimension of size 1 there. A matmul whose rhs is the same for the whole
// batch is flattened to two dimensions, where oneDNN is fastest.
//
//===----------------------------------------------------------------------===//
#include "DnnlCall.h"

#include "DnnlPostOps.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

namespace {

/// A strided view of an operand, in oneDNN's order of dimensions.
struct View {
  Shape dims, strides;
  int64_t offset = 0;
};

dnnl_data_type_t dataType(kerf_dtype_t dtype) {
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

// `dims` in the manifest's order.
View viewOf(const Operand &operand, const Shape &dims) {
  View view{dims, operand.strides, operand.offset};
  if (view.strides.empty()) {
    view.strides = denseStrides(dims);
    if (operand.transpose) {
      size_t last = dims.size() - 1;
      view.strides[last - 1] = 1;
      view.strides[last] = dims[last - 1];
    }
  }
  for (size_t d = 0; d < dims.size(); ++d)
    if (view.strides[d] == 0)
      view.dims[d] = 1;
  return view;
}

/// Elements from the first to one past the last that the view touches.
int64_t extent(const View &view) {
  int64_t last = view.offset;
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (view.dims[d] == 0)
      return 0;
    last = addChecked(last, mulChecked(view.dims[d] - 1, view.strides[d]));
  }
  return addChecked(last, 1);
}

dnnl_memory_desc_t descOf(const View &view, kerf_dtype_t dtype) {
  dnnl_memory_desc_t desc;
  Shape strides = view.strides;
  for (size_t d = 0; d < strides.size(); ++d)
    if (strides[d] == 0) // size 1 here: any stride will do
      strides[d] = 1;
  if (view.dims.size() > DNNL_MAX_NDIMS)
    throw Error(KERF_BAD_PACKAGE, "too many dimensions for a library call");
  Dnnl::check(Dnnl::get().dnnl_memory_desc_init_by_strides(
                  &desc, static_cast<int>(view.dims.size()), view.dims.data(),
                  dataType(dtype), strides.data()),
              "the layout of an operand");
  return desc;
}

dnnl_memory_desc_t anyDesc(const Shape &dims, kerf_dtype_t dtype) {
  dnnl_memory_desc_t desc;
  Dnnl::check(Dnnl::get().dnnl_memory_desc_init_by_tag(
                  &desc, static_cast<int>(dims.size()), dims.data(),
                  dataType(dtype), dnnl_format_tag_any),
              "the layout of weights");
  return desc;
}

// [batch, spatial.., channel] -> [batch, channel, spatial..].
View channelsFirst(View view) {
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
           CpuPackCache &cache,
           const std::function<ParameterView(int64_t)> &parameter)
      : desc(desc), context(context), device(device), cache(cache),
        parameter(parameter), primitiveDesc(nullptr, nullptr) {
    // oneDNN has fast code for most chains of post-ops, not for all: a matmul
    // of one row with a second tensor would take its reference loops, 100 times
    // slower. Then the longest chain that is fast is fused, and the rest runs
    // after it, in place.
    fused = desc.postOps.size();
    // A sum reads what dst held before: the main primitive must do it.
    size_t least = fused != 0 && desc.postOps[0].kind == "sum";
    while (!build()) {
      allowReference = fused == least;
      fused = allowReference ? desc.postOps.size() : fused - 1;
    }
  }

  int64_t scratchBytes() const override { return scratchSize; }

  void run(void *const *buffers, void *scratch) override {
    const Dnnl &dnnl = Dnnl::get();
    for (const Binding &b : bindings)
      dnnl.dnnl_memory_set_data_handle(
          b.memory, static_cast<char *>(buffers[b.buffer]) + b.offsetBytes);
    for (const Scratch &s : scratches)
      dnnl.dnnl_memory_set_data_handle(s.memory,
                                       static_cast<char *>(scratch) + s.offset);
    for (const Step &step : steps) {
      dnnl_status_t status = dnnl.dnnl_primitive_execute(
          step.primitive.get(), context.stream.get(),
          static_cast<int>(step.args.size()), step.args.data());
      if (status != dnnl_success)
        throw Error(KERF_PROGRAM_FAILURE,
                    cat("oneDNN failed with status ", status), desc.node);
    }
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

  /// Build everything with the first `fused` post-ops in the main primitive;
  /// false, with nothing done, if oneDNN has only reference code for that.
  bool build() {
    return desc.kind == LibraryDesc::Matmul ? buildMatmul()
           : desc.kind == LibraryDesc::Pool ? buildPool()
                                            : buildConv();
  }
  bool buildMatmul();
  void flattenBatch(Shape &batch, int64_t &m) const;
  bool buildConv();
  bool buildPool();
  std::vector<PostOp> fusedOps() const {
    return {desc.postOps.begin(), desc.postOps.begin() + fused};
  }
  /// Chooses the main primitive; addMain() makes it the next step.
  bool create(const void *opDesc, dnnl_primitive_attr_t attr,
              const_dnnl_primitive_desc_t hint = nullptr);
  void addMain() { addStep(primitiveDesc.get()); }
  /// Runs what was not fused on `dst`, in place.
  void addTail(const Operand &dst, const View &view,
               const std::function<View(const Operand &)> &viewOfPostOp);
  void addStep(dnnl_primitive_desc_t primitiveDesc);
  /// Binds an operand under `arg`: a buffer at each call, or a parameter now.
  void bind(int arg, const Operand &operand, const View &view,
            kerf_dtype_t dtype);
  /// Makes the main primitive the next step and binds its weights, reordered as
  /// it wants them: a parameter now, a buffer by a step of its own in front.
  void addMainWithWeights(const Operand &operand, const View &view);
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
  void addScratchpad();
  /// The parameter with `data` at the view's offset; checks that it is inside.
  ParameterView parameterAt(const Operand &operand, const View &view,
                            kerf_dtype_t dtype) const;

  LibraryDesc desc;
  DnnlContext &context;
  Device &device;
  CpuPackCache &cache;
  const std::function<ParameterView(int64_t)> &parameter; ///< while building
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
};

bool DnnlCall::create(const void *opDesc, dnnl_primitive_attr_t attr,
                      const_dnnl_primitive_desc_t hint) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_primitive_desc_t rawDesc = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_desc_create(&rawDesc, opDesc, attr,
                                              context.engine.get(), hint),
              "this call");
  primitiveDesc = {rawDesc, dnnl.dnnl_primitive_desc_destroy};
  const char *implementation = "";
  dnnl.dnnl_primitive_desc_query(rawDesc, dnnl_query_impl_info_str, 0,
                                 &implementation);
  return allowReference || std::strncmp(implementation, "ref", 3) != 0;
}

dnnl_memory_t DnnlCall::scratchMemory(const dnnl_memory_desc_t &memoryDesc) {
  auto memory = makeMemory(memoryDesc, context.engine.get(), nullptr);
  dnnl_memory_t raw = memory.get();
  scratches.push_back({raw, scratchSize});
  auto bytes =
      static_cast<int64_t>(Dnnl::get().dnnl_memory_desc_get_size(&memoryDesc));
  scratchSize += ceilDiv(bytes, KERF_BUFFER_ALIGNMENT) * KERF_BUFFER_ALIGNMENT;
  memories.push_back(std::move(memory));
  return raw;
}

dnnl_memory_t DnnlCall::addReorder(const dnnl_memory_desc_t &from,
                                   const dnnl_memory_desc_t &to,
                                   const Operand &operand, const View &view,
                                   bool operandIsSource) {
  const Dnnl &dnnl = Dnnl::get();
  std::vector<BinaryPostOp> noBinaries;
  DnnlHandle<dnnl_primitive_attr_t> attr = makeAttributes({}, {}, noBinaries);
  dnnl_primitive_desc_t rawDesc = nullptr;
  Dnnl::check(dnnl.dnnl_reorder_primitive_desc_create(
                  &rawDesc, &from, context.engine.get(), &to,
                  context.engine.get(), attr.get()),
              "another layout of weights");
  DnnlHandle<dnnl_primitive_desc_t> owner(rawDesc,
                                          dnnl.dnnl_primitive_desc_destroy);
  addStep(rawDesc);
  dnnl_memory_t other = operandIsSource ? scratchMemory(to) : nullptr;
  bind(operandIsSource ? DNNL_ARG_FROM : DNNL_ARG_TO, operand, view,
       operandIsSource ? desc.dtype : desc.dstDtype);
  if (other)
    steps.back().args.push_back({DNNL_ARG_TO, other});
  const dnnl_memory_desc_t *scratch =
      dnnl.dnnl_primitive_desc_query_md(rawDesc, dnnl_query_scratchpad_md, 0);
  if (scratch && scratch->ndims != 0)
    steps.back().args.push_back({DNNL_ARG_SCRATCHPAD, scratchMemory(*scratch)});
  return other;
}

void DnnlCall::addStep(dnnl_primitive_desc_t rawDesc) {
  dnnl_primitive_t raw = nullptr;
  Dnnl::check(Dnnl::get().dnnl_primitive_create(&raw, rawDesc), "this call");
  steps.emplace_back();
  steps.back().primitive = {raw, Dnnl::get().dnnl_primitive_destroy};
}

void DnnlCall::addArg(int arg, DnnlHandle<dnnl_memory_t> memory) {
  steps.back().args.push_back({arg, memory.get()});
  memories.push_back(std::move(memory));
}

void DnnlCall::addTail(
    const Operand &dst, const View &view,
    const std::function<View(const Operand &)> &viewOfPostOp) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t dstDesc = descOf(view, desc.dstDtype);
  for (size_t i = fused; i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i])) {
      bool binary = op.kind == SimplePostOp::Binary;
      dnnl_eltwise_desc_t eltwiseOp;
      dnnl_binary_desc_t binaryOp;
      if (binary) {
        dnnl_memory_desc_t other =
            descOf(viewOfPostOp(*op.operand), desc.dstDtype);
        Dnnl::check(dnnl.dnnl_binary_desc_init(&binaryOp, op.algorithm,
                                               &dstDesc, &other, &dstDesc),
                    "a post-op");
      } else {
        Dnnl::check(dnnl.dnnl_eltwise_forward_desc_init(
                        &eltwiseOp, dnnl_forward_inference, op.algorithm,
                        &dstDesc, op.alpha, op.beta),
                    "a post-op");
      }
      dnnl_primitive_desc_t rawDesc = nullptr;
      const void *opDesc = binary ? static_cast<const void *>(&binaryOp)
                                  : static_cast<const void *>(&eltwiseOp);
      Dnnl::check(dnnl.dnnl_primitive_desc_create(
                      &rawDesc, opDesc, nullptr, context.engine.get(), nullptr),
                  "a post-op");
      DnnlHandle<dnnl_primitive_desc_t> owner(rawDesc,
                                              dnnl.dnnl_primitive_desc_destroy);
      addStep(rawDesc);
      bind(binary ? DNNL_ARG_SRC_0 : DNNL_ARG_SRC, dst, view, desc.dstDtype);
      if (binary)
        bind(DNNL_ARG_SRC_1, *op.operand, viewOfPostOp(*op.operand),
             desc.dstDtype);
      bind(DNNL_ARG_DST, dst, view, desc.dstDtype);
    }
}

ParameterView DnnlCall::parameterAt(const Operand &operand, const View &view,
                                    kerf_dtype_t dtype) const {
  ParameterView part = parameter(operand.index);
  int64_t needed = extent(view);
  if (needed > part.elements)
    throw Error(KERF_BAD_PACKAGE,
                cat("operand reaches element ", needed, " of parameter ",
                    operand.index, ", which has ", part.elements));
  part.data =
      static_cast<const char *>(part.data) + view.offset * dtypeSize(dtype);
  return part;
}

void DnnlCall::bind(int arg, const Operand &operand, const View &view,
                    kerf_dtype_t dtype) {
  void *data = nullptr;
  if (operand.kind == Operand::Param) {
    ParameterView part = parameterAt(operand, view, dtype);
    data = const_cast<void *>(part.data);
    owners.push_back(part.owner);
  }
  auto memory = makeMemory(descOf(view, dtype), context.engine.get(), data);
  if (operand.kind == Operand::Buffer)
    bindings.push_back(
        {memory.get(), operand.index, view.offset * dtypeSize(dtype)});
  addArg(arg, std::move(memory));
}

void DnnlCall::addMainWithWeights(const Operand &operand, const View &view) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t plain = descOf(view, desc.dtype);
  dnnl_memory_desc_t wanted = *dnnl.dnnl_primitive_desc_query_md(
      primitiveDesc.get(), dnnl_query_weights_md, 0);
  if (operand.kind != Operand::Param) {
    dnnl_memory_t packed = nullptr;
    if (!dnnl.dnnl_memory_desc_equal(&plain, &wanted))
      packed = addReorder(plain, wanted, operand, view, true);
    addMain();
    if (packed)
      steps.back().args.push_back({DNNL_ARG_WEIGHTS, packed});
    else
      bind(DNNL_ARG_WEIGHTS, operand, view, desc.dtype);
    return;
  }
  addMain();
  ParameterView part = parameterAt(operand, view, desc.dtype);
  void *data = const_cast<void *>(part.data);
  if (dnnl.dnnl_memory_desc_equal(&plain, &wanted)) {
    owners.push_back(part.owner); // read in place at every call
    return addArg(DNNL_ARG_WEIGHTS,
                  makeMemory(plain, context.engine.get(), data));
  }
  std::string key = part.key + cat("@", view.offset, ":");
  key.append(reinterpret_cast<const char *>(&plain), sizeof(plain));
  key.append(reinterpret_cast<const char *>(&wanted), sizeof(wanted));
  CpuPackCache::Bytes packed = cache.get(key, [&] {
    CpuPackCache::Bytes bytes = device.allocate(
        static_cast<int64_t>(dnnl.dnnl_memory_desc_get_size(&wanted)),
        "packed weights");
    auto from = makeMemory(plain, context.engine.get(), data);
    auto to = makeMemory(wanted, context.engine.get(), bytes->data);
    dnnl_primitive_desc_t rawDesc = nullptr;
    Dnnl::check(dnnl.dnnl_reorder_primitive_desc_create(
                    &rawDesc, &plain, context.engine.get(), &wanted,
                    context.engine.get(), nullptr),
                "packing of weights");
    DnnlHandle<dnnl_primitive_desc_t> reorderDesc(
        rawDesc, dnnl.dnnl_primitive_desc_destroy);
    dnnl_primitive_t raw = nullptr;
    Dnnl::check(dnnl.dnnl_primitive_create(&raw, rawDesc),
                "packing of weights");
    DnnlHandle<dnnl_primitive_t> reorder(raw, dnnl.dnnl_primitive_destroy);
    dnnl_exec_arg_t reorderArgs[] = {{DNNL_ARG_FROM, from.get()},
                                     {DNNL_ARG_TO, to.get()}};
    Dnnl::check(
        dnnl.dnnl_primitive_execute(raw, context.stream.get(), 2, reorderArgs),
        "packing of weights");
    return bytes;
  });
  owners.push_back(packed);
  addArg(DNNL_ARG_WEIGHTS,
         makeMemory(wanted, context.engine.get(), packed->data));
}

void DnnlCall::finish(
    const std::vector<BinaryPostOp> &binaries, const View &dst,
    const std::function<View(const Operand &)> &viewOfPostOp) {
  for (const BinaryPostOp &b : binaries)
    bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(b.index) | DNNL_ARG_SRC_1, *b.operand,
         viewOfPostOp(*b.operand), desc.dstDtype);
  addScratchpad();
  addTail(desc.dst, dst, viewOfPostOp);
}

void DnnlCall::addScratchpad() {
  const dnnl_memory_desc_t *scratch = Dnnl::get().dnnl_primitive_desc_query_md(
      primitiveDesc.get(), dnnl_query_scratchpad_md, 0);
  if (scratch && scratch->ndims != 0)
    steps.back().args.push_back({DNNL_ARG_SCRATCHPAD, scratchMemory(*scratch)});
}

// Merges the batch into m where every tensor but rhs is dense over both.
void DnnlCall::flattenBatch(Shape &batch, int64_t &m) const {
  if (batch.empty())
    return;
  bool sameRhs =
      !desc.rhs.strides.empty() &&
      std::all_of(desc.rhs.strides.begin(), desc.rhs.strides.end() - 2,
                  [](int64_t s) { return s == 0; });
  bool single =
      std::all_of(batch.begin(), batch.end(), [](int64_t b) { return b == 1; });
  auto plain = [](const Operand &o) {
    return o.strides.empty() && !o.transpose;
  };
  bool dense = plain(desc.lhs) && plain(desc.dst);
  for (const PostOp &op : desc.postOps)
    dense = dense && plain(op.operand);
  if (dense && (sameRhs || (single && desc.rhs.strides.empty()))) {
    m = mulChecked(m, numElements(batch));
    batch.clear();
  }
}

bool DnnlCall::buildMatmul() {
  Shape batch = desc.batch;
  int64_t m = desc.m;
  flattenBatch(batch, m);
  Operand rhsOperand = desc.rhs;
  if (batch.empty() && !rhsOperand.strides.empty())
    rhsOperand.strides.erase(rhsOperand.strides.begin(),
                             rhsOperand.strides.end() - 2);
  auto with = [&](int64_t a, int64_t b) {
    Shape dims = batch;
    dims.push_back(a);
    dims.push_back(b);
    return dims;
  };
  Shape dstDims = with(m, desc.n);
  View lhs = viewOf(desc.lhs, with(m, desc.k)),
       rhs = viewOf(rhsOperand, with(desc.k, desc.n)),
       dst = viewOf(desc.dst, dstDims);
  if (dst.dims != dstDims)
    throw Error(KERF_BAD_PACKAGE, "dst of a matmul has a stride of 0");
  if (numElements(dstDims) == 0)
    return true;
  if (desc.k == 0)
    throw Error(KERF_BAD_PACKAGE, "k of a matmul is 0");
  auto viewOfPostOp = [&](const Operand &o) { return viewOf(o, dstDims); };
  std::vector<PostOp> mainOps = fusedOps();
  std::vector<BinaryPostOp> binaries;
  binaries.reserve(mainOps.size());
  auto attr = makeAttributes(
      mainOps,
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dstDtype); },
      binaries);
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t lhsDesc = descOf(lhs, desc.dtype),
                     dstDesc = descOf(dst, desc.dstDtype);
  // Rows of a multiple of a page's size fall on the same lines of the cache:
  // packing the matrix first is two to three times faster than reading it so.
  bool conflicts = rhs.dims.size() == 2 && rhs.strides[1] == 1 &&
                   rhs.strides[0] * dtypeSize(desc.dtype) % 4096 == 0 &&
                   rhs.dims[0] >= 64 && m >= 64;
  dnnl_memory_desc_t rhsDesc = desc.rhs.kind == Operand::Param || conflicts
                                   ? anyDesc(rhs.dims, desc.dtype)
                                   : descOf(rhs, desc.dtype);
  View bias;
  bool hasBias = desc.bias.kind != Operand::None;
  dnnl_memory_desc_t biasDesc;
  if (hasBias) {
    bias = viewOf(desc.bias, {desc.n});
    int64_t stride = bias.strides[0];
    bias.dims = Shape(dstDims.size(), 1);
    bias.dims.back() = desc.n;
    bias.strides = Shape(dstDims.size(), desc.n);
    bias.strides.back() = stride;
    biasDesc = descOf(bias, desc.dstDtype);
  }
  dnnl_matmul_desc_t op;
  Dnnl::check(dnnl.dnnl_matmul_desc_init(&op, &lhsDesc, &rhsDesc,
                                         hasBias ? &biasDesc : nullptr,
                                         &dstDesc),
              "this matmul");
  if (!create(&op, attr.get()))
    return false;
  addMainWithWeights(rhsOperand, rhs);
  bind(DNNL_ARG_SRC, desc.lhs, lhs, desc.dtype);
  if (hasBias)
    bind(DNNL_ARG_BIAS, desc.bias, bias, desc.dstDtype);
  bind(DNNL_ARG_DST, desc.dst, dst, desc.dstDtype);
  finish(binaries, dst, viewOfPostOp);
  return true;
}

static Shape windowDims(int64_t batch, const Shape &spatial, int64_t channels) {
  Shape dims = {batch};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(channels);
  return dims;
}

static Shape minusOne(Shape values) {
  for (int64_t &value : values)
    --value;
  return values;
}

// The image, the weights and the result of a convolution; gradients have the
// same three tensors in other roles. Weights take the layout that oneDNN likes
// best, and are reordered from (gradients: to) the plain one.
bool DnnlCall::buildConv() {
  bool forInput = desc.kind == LibraryDesc::ConvInputGradient,
       forWeights = desc.kind == LibraryDesc::ConvWeightGradient;
  const Operand &xOperand = forInput ? desc.dst : desc.lhs;
  const Operand &yOperand = forInput || forWeights ? desc.rhs : desc.dst;
  const Operand &wOperand = forInput     ? desc.lhs
                            : forWeights ? desc.dst
                                         : desc.rhs;
  kerf_dtype_t xType = forInput ? desc.dstDtype : desc.dtype;
  kerf_dtype_t yType = forInput || forWeights ? desc.dtype : desc.dstDtype;
  Shape yDims = windowDims(desc.batch[0], desc.out, desc.outChannels);
  View x = channelsFirst(
      viewOf(xOperand, windowDims(desc.batch[0], desc.in, desc.inChannels)));
  View y = channelsFirst(viewOf(yOperand, yDims));
  Shape weightDims = {desc.outChannels, desc.inChannels / desc.groups};
  weightDims.insert(weightDims.end(), desc.kernel.begin(), desc.kernel.end());
  View weights = viewOf(wOperand, weightDims);
  if (desc.groups > 1) { // [groups, out/groups, in/groups, kernel..]
    int64_t perGroup = desc.outChannels / desc.groups;
    weights.dims[0] = perGroup;
    weights.dims.insert(weights.dims.begin(), desc.groups);
    weights.strides.insert(weights.strides.begin(),
                           weights.strides[0] * perGroup);
  }
  if (numElements(yDims) == 0)
    return true;
  auto viewOfPostOp = [&](const Operand &o) {
    return channelsFirst(viewOf(o, yDims));
  };
  if ((forInput || forWeights) && !desc.postOps.empty())
    throw Error(KERF_BAD_PACKAGE, cat(desc.kindName(), " takes no post-ops"));
  std::vector<PostOp> mainOps = fusedOps();
  std::vector<BinaryPostOp> binaries;
  binaries.reserve(mainOps.size());
  auto attr = makeAttributes(
      mainOps,
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dstDtype); },
      binaries);
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t xDesc = descOf(x, xType), yDesc = descOf(y, yType);
  dnnl_memory_desc_t plainWeights =
      descOf(weights, forWeights ? desc.dstDtype : desc.dtype);
  dnnl_memory_desc_t weightDesc =
      anyDesc(weights.dims, forWeights ? desc.dstDtype : desc.dtype);
  bool hasBias = desc.bias.kind != Operand::None;
  View bias;
  dnnl_memory_desc_t biasDesc;
  if (hasBias) {
    bias = viewOf(desc.bias, {desc.outChannels});
    biasDesc = descOf(bias, desc.dstDtype);
  }
  Shape dilates = minusOne(desc.dilations);
  dnnl_convolution_desc_t op;
  if (!forInput && !forWeights) {
    Dnnl::check(dnnl.dnnl_dilated_convolution_forward_desc_init(
                    &op, dnnl_forward_inference, dnnl_convolution_direct,
                    &xDesc, &weightDesc, hasBias ? &biasDesc : nullptr, &yDesc,
                    desc.strides.data(), dilates.data(), desc.padsLow.data(),
                    desc.padsHigh.data()),
                "this convolution");
    if (!create(&op, attr.get()))
      return false;
    addMainWithWeights(wOperand, weights);
    bind(DNNL_ARG_SRC, xOperand, x, xType);
    if (hasBias)
      bind(DNNL_ARG_BIAS, desc.bias, bias, desc.dstDtype);
    bind(DNNL_ARG_DST, yOperand, y, yType);
    finish(binaries, y, viewOfPostOp);
    return true;
  }
  // oneDNN wants to see the forward first.
  dnnl_memory_desc_t forwardX = descOf(x, desc.dtype),
                     forwardW = anyDesc(weights.dims, desc.dtype);
  dnnl_convolution_desc_t forwardOp;
  Dnnl::check(dnnl.dnnl_dilated_convolution_forward_desc_init(
                  &forwardOp, dnnl_forward_training, dnnl_convolution_direct,
                  &forwardX, &forwardW, nullptr, &yDesc, desc.strides.data(),
                  dilates.data(), desc.padsLow.data(), desc.padsHigh.data()),
              "this convolution");
  dnnl_primitive_desc_t rawForward = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_desc_create(&rawForward, &forwardOp, nullptr,
                                              context.engine.get(), nullptr),
              "this convolution");
  DnnlHandle<dnnl_primitive_desc_t> forward(rawForward,
                                            dnnl.dnnl_primitive_desc_destroy);
  if (forInput)
    Dnnl::check(dnnl.dnnl_dilated_convolution_backward_data_desc_init(
                    &op, dnnl_convolution_direct, &xDesc, &weightDesc, &yDesc,
                    desc.strides.data(), dilates.data(), desc.padsLow.data(),
                    desc.padsHigh.data()),
                "this convolution gradient");
  else
    Dnnl::check(dnnl.dnnl_dilated_convolution_backward_weights_desc_init(
                    &op, dnnl_convolution_direct, &xDesc, &weightDesc, nullptr,
                    &yDesc, desc.strides.data(), dilates.data(),
                    desc.padsLow.data(), desc.padsHigh.data()),
                "this convolution gradient");
  if (!create(&op, attr.get(), forward.get()))
    return false;
  if (forInput) {
    addMainWithWeights(wOperand, weights);
    bind(DNNL_ARG_DIFF_DST, yOperand, y, yType);
    bind(DNNL_ARG_DIFF_SRC, xOperand, x, xType);
    addScratchpad();
    return true;
  }
  addMain();
  bind(DNNL_ARG_SRC, xOperand, x, xType);
  bind(DNNL_ARG_DIFF_DST, yOperand, y, yType);
  dnnl_memory_desc_t wanted = *dnnl.dnnl_primitive_desc_query_md(
      primitiveDesc.get(), dnnl_query_diff_weights_md, 0);
  if (dnnl.dnnl_memory_desc_equal(&plainWeights, &wanted)) {
    bind(DNNL_ARG_DIFF_WEIGHTS, wOperand, weights, desc.dstDtype);
    addScratchpad();
    return true;
  }
  dnnl_memory_t packed = scratchMemory(wanted);
  steps.back().args.push_back({DNNL_ARG_DIFF_WEIGHTS, packed});
  addScratchpad();
  addReorder(wanted, plainWeights, wOperand, weights, false);
  steps.back().args.push_back({DNNL_ARG_FROM, packed});
  return true;
}

bool DnnlCall::buildPool() {
  Shape dstDims = windowDims(desc.batch[0], desc.out, desc.outChannels);
  View src = channelsFirst(
      viewOf(desc.lhs, windowDims(desc.batch[0], desc.in, desc.inChannels)));
  View dst = channelsFirst(viewOf(desc.dst, dstDims));
  dnnl_alg_kind_t algorithm;
  if (desc.algorithm == "max")
    algorithm = dnnl_pooling_max;
  else if (desc.algorithm == "avg_include_padding")
    algorithm = dnnl_pooling_avg_include_padding;
  else if (desc.algorithm == "avg_exclude_padding")
    algorithm = dnnl_pooling_avg_exclude_padding;
  else
    throw Error(KERF_BAD_PACKAGE,
                "unknown pooling algorithm \"" + desc.algorithm + "\"");
  if (numElements(dstDims) == 0)
    return true;
  auto viewOfPostOp = [&](const Operand &o) {
    return channelsFirst(viewOf(o, dstDims));
  };
  std::vector<PostOp> mainOps = fusedOps();
  std::vector<BinaryPostOp> binaries;
  binaries.reserve(mainOps.size());
  auto attr = makeAttributes(
      mainOps,
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dstDtype); },
      binaries);
  dnnl_memory_desc_t srcDesc = descOf(src, desc.dtype),
                     dstDesc = descOf(dst, desc.dstDtype);
  Shape dilates = minusOne(desc.dilations);
  dnnl_pooling_v2_desc_t op;
  Dnnl::check(Dnnl::get().dnnl_pooling_v2_forward_desc_init(
                  &op, dnnl_forward_inference, algorithm, &srcDesc, &dstDesc,
                  desc.strides.data(), desc.kernel.data(), dilates.data(),
                  desc.padsLow.data(), desc.padsHigh.data()),
              "this pooling");
  if (!create(&op, attr.get()))
    return false;
  addMain();
  bind(DNNL_ARG_SRC, desc.lhs, src, desc.dtype);
  bind(DNNL_ARG_DST, desc.dst, dst, desc.dstDtype);
  finish(binaries, dst, viewOfPostOp);
  return true;
}
} // namespace

DnnlContext::DnnlContext()
    : engine(nullptr, nullptr), stream(nullptr, nullptr) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_engine_t rawEngine = nullptr;
  Dnnl::check(dnnl.dnnl_engine_create(&rawEngine, dnnl_cpu, 0), "an engine");
  engine = {rawEngine, dnnl.dnnl_engine_destroy};
  dnnl_stream_t rawStream = nullptr;
  Dnnl::check(
      dnnl.dnnl_stream_create(&rawStream, rawEngine, dnnl_stream_default_flags),
      "a stream");
  stream = {rawStream, dnnl.dnnl_stream_destroy};
}

std::unique_ptr<LibraryCall>
kerf::rt::makeDnnlCall(const LibraryDesc &desc, DnnlContext &context,
                       Device &device, CpuPackCache &cache,
                       const std::function<ParameterView(int64_t)> &parameter) {
  return std::make_unique<DnnlCall>(desc, context, device, cache, parameter);
}
