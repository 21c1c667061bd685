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
    if (scratchMemory)
      dnnl.dnnl_memory_set_data_handle(scratchMemory.get(), scratch);
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
           : desc.kind == LibraryDesc::Conv ? buildConv()
                                            : buildPool();
  }
  bool buildMatmul();
  void flattenBatch(Shape &batch, int64_t &m) const;
  bool buildConv();
  bool buildPool();
  std::vector<PostOp> fusedOps() const {
    return {desc.postOps.begin(), desc.postOps.begin() + fused};
  }
  bool create(const void *opDesc, dnnl_primitive_attr_t attr);
  /// Runs what was not fused on `dst`, in place.
  void addTail(const Operand &dst, const View &view,
               const std::function<View(const Operand &)> &viewOfPostOp);
  void addStep(dnnl_primitive_desc_t primitiveDesc);
  /// Binds an operand under `arg`: a buffer at each call, or a parameter now.
  void bind(int arg, const Operand &operand, const View &view);
  /// Binds weights, reordered as the primitive wants them if they are a
  /// parameter.
  void bindWeights(const Operand &operand, const View &view);
  void addArg(int arg, DnnlHandle<dnnl_memory_t> memory);
  void finish(const std::vector<BinaryPostOp> &binaries, const View &dst,
              const std::function<View(const Operand &)> &viewOfPostOp);
  /// The parameter with `data` at the view's offset; checks that it is inside.
  ParameterView parameterAt(const Operand &operand, const View &view) const;

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
  DnnlHandle<dnnl_memory_t> scratchMemory{nullptr, nullptr};
  std::vector<std::shared_ptr<void>>
      owners; ///< of parameters and packed weights
  std::vector<Binding> bindings;
  int64_t scratchSize = 0;
};

bool DnnlCall::create(const void *opDesc, dnnl_primitive_attr_t attr) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_primitive_desc_t rawDesc = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_desc_create(&rawDesc, opDesc, attr,
                                              context.engine.get(), nullptr),
              "this call");
  primitiveDesc = {rawDesc, dnnl.dnnl_primitive_desc_destroy};
  const char *implementation = "";
  dnnl.dnnl_primitive_desc_query(rawDesc, dnnl_query_impl_info_str, 0,
                                 &implementation);
  if (!allowReference && std::strncmp(implementation, "ref", 3) == 0)
    return false;
  addStep(rawDesc);
  return true;
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
  dnnl_memory_desc_t dstDesc = descOf(view, desc.dtype);
  for (size_t i = fused; i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i])) {
      bool binary = op.kind == SimplePostOp::Binary;
      dnnl_eltwise_desc_t eltwiseOp;
      dnnl_binary_desc_t binaryOp;
      if (binary) {
        dnnl_memory_desc_t other =
            descOf(viewOfPostOp(*op.operand), desc.dtype);
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
      bind(binary ? DNNL_ARG_SRC_0 : DNNL_ARG_SRC, dst, view);
      if (binary)
        bind(DNNL_ARG_SRC_1, *op.operand, viewOfPostOp(*op.operand));
      bind(DNNL_ARG_DST, dst, view);
    }
}

ParameterView DnnlCall::parameterAt(const Operand &operand,
                                    const View &view) const {
  ParameterView part = parameter(operand.index);
  int64_t needed = extent(view);
  if (needed > part.elements)
    throw Error(KERF_BAD_PACKAGE,
                cat("operand reaches element ", needed, " of parameter ",
                    operand.index, ", which has ", part.elements));
  part.data = static_cast<const char *>(part.data) +
              view.offset * dtypeSize(desc.dtype);
  return part;
}

void DnnlCall::bind(int arg, const Operand &operand, const View &view) {
  void *data = nullptr;
  if (operand.kind == Operand::Param) {
    ParameterView part = parameterAt(operand, view);
    data = const_cast<void *>(part.data);
    owners.push_back(part.owner);
  }
  auto memory =
      makeMemory(descOf(view, desc.dtype), context.engine.get(), data);
  if (operand.kind == Operand::Buffer)
    bindings.push_back(
        {memory.get(), operand.index, view.offset * dtypeSize(desc.dtype)});
  addArg(arg, std::move(memory));
}

void DnnlCall::bindWeights(const Operand &operand, const View &view) {
  if (operand.kind != Operand::Param)
    return bind(DNNL_ARG_WEIGHTS, operand, view);
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t plain = descOf(view, desc.dtype);
  dnnl_memory_desc_t wanted = *dnnl.dnnl_primitive_desc_query_md(
      primitiveDesc.get(), dnnl_query_weights_md, 0);
  ParameterView part = parameterAt(operand, view);
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
         viewOfPostOp(*b.operand));
  const Dnnl &dnnl = Dnnl::get();
  const dnnl_memory_desc_t *scratch = dnnl.dnnl_primitive_desc_query_md(
      primitiveDesc.get(), dnnl_query_scratchpad_md, 0);
  if (scratch && scratch->ndims != 0) {
    scratchSize = static_cast<int64_t>(dnnl.dnnl_memory_desc_get_size(scratch));
    scratchMemory = makeMemory(*scratch, context.engine.get(), nullptr);
    steps.back().args.push_back({DNNL_ARG_SCRATCHPAD, scratchMemory.get()});
  }
  addTail(desc.dst, dst, viewOfPostOp);
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
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dtype); },
      binaries);
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t lhsDesc = descOf(lhs, desc.dtype),
                     dstDesc = descOf(dst, desc.dtype);
  dnnl_memory_desc_t rhsDesc = desc.rhs.kind == Operand::Param
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
    biasDesc = descOf(bias, desc.dtype);
  }
  dnnl_matmul_desc_t op;
  Dnnl::check(dnnl.dnnl_matmul_desc_init(&op, &lhsDesc, &rhsDesc,
                                         hasBias ? &biasDesc : nullptr,
                                         &dstDesc),
              "this matmul");
  if (!create(&op, attr.get()))
    return false;
  bind(DNNL_ARG_SRC, desc.lhs, lhs);
  bindWeights(rhsOperand, rhs);
  if (hasBias)
    bind(DNNL_ARG_BIAS, desc.bias, bias);
  bind(DNNL_ARG_DST, desc.dst, dst);
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

bool DnnlCall::buildConv() {
  Shape dstDims = windowDims(desc.batch[0], desc.out, desc.outChannels);
  View src = channelsFirst(
      viewOf(desc.lhs, windowDims(desc.batch[0], desc.in, desc.inChannels)));
  View dst = channelsFirst(viewOf(desc.dst, dstDims));
  Shape weightDims = {desc.outChannels, desc.inChannels / desc.groups};
  weightDims.insert(weightDims.end(), desc.kernel.begin(), desc.kernel.end());
  View weights = viewOf(desc.rhs, weightDims);
  if (desc.groups > 1) { // [groups, out/groups, in/groups, kernel..]
    int64_t perGroup = desc.outChannels / desc.groups;
    weights.dims[0] = perGroup;
    weights.dims.insert(weights.dims.begin(), desc.groups);
    weights.strides.insert(weights.strides.begin(),
                           weights.strides[0] * perGroup);
  }
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
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dtype); },
      binaries);
  dnnl_memory_desc_t srcDesc = descOf(src, desc.dtype),
                     dstDesc = descOf(dst, desc.dtype);
  dnnl_memory_desc_t weightDesc = desc.rhs.kind == Operand::Param
                                      ? anyDesc(weights.dims, desc.dtype)
                                      : descOf(weights, desc.dtype);
  bool hasBias = desc.bias.kind != Operand::None;
  View bias;
  dnnl_memory_desc_t biasDesc;
  if (hasBias) {
    bias = viewOf(desc.bias, {desc.outChannels});
    biasDesc = descOf(bias, desc.dtype);
  }
  Shape dilates = minusOne(desc.dilations);
  dnnl_convolution_desc_t op;
  Dnnl::check(Dnnl::get().dnnl_dilated_convolution_forward_desc_init(
                  &op, dnnl_forward_inference, dnnl_convolution_direct,
                  &srcDesc, &weightDesc, hasBias ? &biasDesc : nullptr,
                  &dstDesc, desc.strides.data(), dilates.data(),
                  desc.padsLow.data(), desc.padsHigh.data()),
              "this convolution");
  if (!create(&op, attr.get()))
    return false;
  bind(DNNL_ARG_SRC, desc.lhs, src);
  bindWeights(desc.rhs, weights);
  if (hasBias)
    bind(DNNL_ARG_BIAS, desc.bias, bias);
  bind(DNNL_ARG_DST, desc.dst, dst);
  finish(binaries, dst, viewOfPostOp);
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
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dtype); },
      binaries);
  dnnl_memory_desc_t srcDesc = descOf(src, desc.dtype),
                     dstDesc = descOf(dst, desc.dtype);
  Shape dilates = minusOne(desc.dilations);
  dnnl_pooling_v2_desc_t op;
  Dnnl::check(Dnnl::get().dnnl_pooling_v2_forward_desc_init(
                  &op, dnnl_forward_inference, algorithm, &srcDesc, &dstDesc,
                  desc.strides.data(), desc.kernel.data(), dilates.data(),
                  desc.padsLow.data(), desc.padsHigh.data()),
              "this pooling");
  if (!create(&op, attr.get()))
    return false;
  bind(DNNL_ARG_SRC, desc.lhs, src);
  bind(DNNL_ARG_DST, desc.dst, dst);
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
