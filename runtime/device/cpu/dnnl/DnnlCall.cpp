//===- DnnlCall.cpp - matmul, convolution and pooling by oneDNN -----------===//
//
// Every operand is a strided view: logical dimensions, strides and an offset.
// oneDNN sees it as a memory descriptor over (buffer + offset); a stride of 0
// is a dimension of size 1 there. A matmul whose rhs is the same for the whole
// batch is flattened to two dimensions, where oneDNN is fastest.
//
//===----------------------------------------------------------------------===//
#include "DnnlPrimitive.h"

#include "../../../base/MappedFile.h"

#include <algorithm>

using namespace kerf::rt;

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
  // The convolution by im2col and matmul reads wrong elements of second tensors
  // (2.6.3; what older CPUs and odd layouts get).
  if (desc.kind != LibraryDesc::Matmul && std::strstr(implementation, "gemm"))
    for (size_t i = 0; i < fused; ++i)
      if (desc.postOps[i].operand.kind != Operand::None)
        return false;
  if (desc.dtype == KERF_F32 && std::strstr(implementation, "gemm") &&
      !std::strstr(implementation, "brg"))
    dnnl.compileProducts();
  return allowReference || std::strncmp(implementation, "ref", 3) != 0;
}

std::vector<PostOp>
DnnlCall::fusedOps(const View &dst,
                   const std::function<View(const Operand &)> &viewOfPostOp) {
  std::vector<SimplePostOp> steps;
  // Convolutions and pools read wrong elements of second tensors, unless these
  // repeat along all dimensions but the channel, or along none; matmuls do, or
  // crash, if rows of dst lie between the rows of another tensor.
  auto isRead = [&](const View &operand) {
    return liesAs(dst, operand) &&
           (desc.kind == LibraryDesc::Matmul
                ? isInOrder(dst)
                : isFullOrPerChannel(dst, operand, /*channel=*/1));
  };
  auto mayJoin = [&](const PostOp &op) {
    if (op.operand.kind != Operand::None && !isRead(viewOfPostOp(op.operand)))
      return false;
    for (const SimplePostOp &step : simplify(op)) {
      for (const SimplePostOp &before : steps)
        if (sharesConstants(before, step))
          return false;
      steps.push_back(step);
    }
    return true;
  };
  for (size_t i = 0; i < fused; ++i)
    if (!mayJoin(desc.postOps[i]))
      fused = i;
  return {desc.postOps.begin(), desc.postOps.begin() + fused};
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

void DnnlCall::reorder(const dnnl_memory_desc_t &plain, void *from,
                       const dnnl_memory_desc_t &wanted, void *to) {
  const Dnnl &dnnl = Dnnl::get();
  auto source = makeMemory(plain, context.engine.get(), from);
  auto target = makeMemory(wanted, context.engine.get(), to);
  dnnl_primitive_desc_t rawDesc = nullptr;
  Dnnl::check(dnnl.dnnl_reorder_primitive_desc_create(
                  &rawDesc, &plain, context.engine.get(), &wanted,
                  context.engine.get(), nullptr),
              "packing of weights");
  DnnlHandle<dnnl_primitive_desc_t> reorderDesc(
      rawDesc, dnnl.dnnl_primitive_desc_destroy);
  dnnl_primitive_t raw = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_create(&raw, rawDesc), "packing of weights");
  DnnlHandle<dnnl_primitive_t> primitive(raw, dnnl.dnnl_primitive_destroy);
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()},
                            {DNNL_ARG_TO, target.get()}};
  Dnnl::check(dnnl.dnnl_primitive_execute(raw, context.stream.get(), 2, args),
              "packing of weights");
}

// Slabs are cut along the dimension with the largest stride, so that each is
// contiguous in the file. If a slab would not end with a block of the packed
// layout, everything is packed at once.
void DnnlCall::pack(const dnnl_memory_desc_t &plain, void *from, bool isMapped,
                    const dnnl_memory_desc_t &wanted, void *to) {
  constexpr int64_t slabBytes = int64_t(8) << 20;
  constexpr int64_t blocks = 192; // a multiple of 16, 48 and 64
  const Dnnl &dnnl = Dnnl::get();
  const int64_t *strides = plain.format_desc.blocking.strides;
  int outer = 0;
  for (int d = 1; d < plain.ndims; ++d)
    if (plain.dims[d] > 1 &&
        (plain.dims[outer] == 1 || strides[d] > strides[outer]))
      outer = d;
  int64_t rowBytes =
      std::max<int64_t>(strides[outer] * dtypeSize(desc.dtype), 1);
  int64_t rows = ceilDiv(std::max(slabBytes / rowBytes, blocks), blocks);
  rows *= blocks;
  dnnl_dims_t dims, offsets = {};
  std::copy_n(plain.dims, plain.ndims, dims);
  for (int64_t at = 0; isMapped && at < plain.dims[outer]; at += rows) {
    offsets[outer] = at;
    dims[outer] = std::min(rows, plain.dims[outer] - at);
    dnnl_memory_desc_t slab, packed;
    if (dnnl.dnnl_memory_desc_init_submemory(&slab, &plain, dims, offsets) !=
            dnnl_success ||
        dnnl.dnnl_memory_desc_init_submemory(&packed, &wanted, dims, offsets) !=
            dnnl_success) {
      isMapped = false;
      break;
    }
    reorder(slab, from, packed, to);
    forgetMapped(static_cast<char *>(from) + at * rowBytes,
                 static_cast<size_t>(dims[outer] * rowBytes));
  }
  if (!isMapped)
    reorder(plain, from, wanted, to);
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
    watchedRhs = watch(operand, view, desc.dtype);
    if (packed)
      steps.back().args.push_back({DNNL_ARG_WEIGHTS, packed});
    else
      bind(DNNL_ARG_WEIGHTS, operand, view, desc.dtype);
    return;
  }
  addMain();
  watchedRhs = watch(operand, view, desc.dtype);
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
    pack(plain, data, part.isMapped, wanted, bytes->data);
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
  watchPostOps(dst, viewOfPostOp);
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

DnnlHandle<dnnl_primitive_attr_t> DnnlCall::mainAttributes(
    const std::vector<PostOp> &mainOps,
    const std::function<View(const Operand &)> &viewOfPostOp,
    std::vector<BinaryPostOp> &binaries) const {
  binaries.reserve(mainOps.size());
  return makeAttributes(
      mainOps,
      [&](const Operand &o) { return descOf(viewOfPostOp(o), desc.dstDtype); },
      binaries);
}

// Rows of a multiple of a KiB map to few cache sets, and the product by packing
// of parts (all that CPUs before AVX-512 get) reads the other matrix down its
// columns: one line between rows makes it 1.1 (rows of 3 KiB) to 2.1 times (of
// 12 KiB) faster.
bool DnnlCall::spreadRows(dnnl_memory_desc_t &weights) const {
  constexpr int64_t line = 64, conflict = 1024;
  const Dnnl &dnnl = Dnnl::get();
  const char *implementation = "";
  dnnl.dnnl_primitive_desc_query(primitiveDesc.get(), dnnl_query_impl_info_str,
                                 0, &implementation);
  dnnl_memory_desc_t chosen = *dnnl.dnnl_primitive_desc_query_md(
      primitiveDesc.get(), dnnl_query_weights_md, 0);
  if (std::strncmp(implementation, "gemm", 4) != 0 || chosen.ndims != 2 ||
      chosen.format_kind != dnnl_blocked ||
      chosen.format_desc.blocking.inner_nblks != 0)
    return false;
  int64_t k = chosen.dims[0], n = chosen.dims[1], size = dtypeSize(desc.dtype);
  const dnnl_dim_t *strides = chosen.format_desc.blocking.strides;
  if (k < 64 || strides[1] != 1 || strides[0] != n || n * size % conflict != 0)
    return false;
  dnnl_dims_t dims = {k, n}, spread = {n + line / size, 1};
  return dnnl.dnnl_memory_desc_init_by_strides(
             &weights, 2, dims, chosen.data_type, spread) == dnnl_success;
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
  std::vector<PostOp> mainOps = fusedOps(dst, viewOfPostOp);
  std::vector<BinaryPostOp> binaries;
  auto attr = mainAttributes(mainOps, viewOfPostOp, binaries);
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t lhsDesc = descOf(lhs, desc.dtype),
                     dstDesc = descOf(dst, desc.dstDtype);
  // Rows whose size is a multiple of a page map to the same cache sets: packing
  // the matrix first is two to three times faster than reading it in place.
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
  if (desc.rhs.kind == Operand::Param && spreadRows(op.weights_desc) &&
      !create(&op, attr.get()))
    return false;
  mainOp = op;
  terms = static_cast<double>(desc.k);
  addMainWithWeights(rhsOperand, rhs);
  bind(DNNL_ARG_SRC, desc.lhs, lhs, desc.dtype);
  watchedLhs = watch(desc.lhs, lhs, desc.dtype);
  if (hasBias) {
    bind(DNNL_ARG_BIAS, desc.bias, bias, desc.dstDtype);
    watchedBias = watch(desc.bias, bias, desc.dstDtype);
  }
  bind(DNNL_ARG_DST, desc.dst, dst, desc.dstDtype);
  finish(binaries, dst, viewOfPostOp);
  return true;
}

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
                       Device &device, CpuPackCache &cache, KnownBounds &known,
                       const std::function<ParameterView(int64_t)> &parameter,
                       int32_t threads) {
  return std::make_unique<DnnlCall>(desc, context, device, cache, known,
                                    parameter, threads);
}
