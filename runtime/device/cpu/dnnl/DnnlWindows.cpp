//===- DnnlWindows.cpp - convolution and pooling by oneDNN ----------------===//
//
// Activations are channels last in memory and channels first to oneDNN.
//
//===----------------------------------------------------------------------===//
#include "DnnlPrimitive.h"

#include <algorithm>
#include <numeric>

using namespace kerf::rt;

static Shape windowDims(int64_t batch, const Shape &spatial, int64_t channels) {
  Shape dims = {batch};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(channels);
  return dims;
}

/// Describes the image with its channels in blocks of eight.
static dnnl_memory_desc_t blockedDesc(const View &image) {
  dnnl_memory_desc_t desc;
  Dnnl::check(Dnnl::get().dnnl_memory_desc_init_by_tag(
                  &desc, 4, image.dims.data(), dnnl_f32, dnnl_aBcd8b),
              "the layout of an image");
  return desc;
}

static Shape minusOne(Shape values) {
  for (int64_t &value : values)
    --value;
  return values;
}

// Problem: with channels last, pixels are a multiple of 128 bytes or so apart,
// and where rows are a power of two they all map to few cache sets. oneDNN's
// code for CPUs before AVX-512 takes eight channels of all rows of the window
// at a time, so it keeps few of these pixels and reads them again and again
// (128 channels of 64 x 64: 2 times slower than with channels in blocks).
//
// Idea: where the lines of a window's rows are 1.5 times those that their sets
// hold, image and result are copied into blocks of eight channels and back.
// That is worth it from some 80 operations for each byte that is copied.
bool DnnlCall::conflictsInCache(const View &x, const View &y) const {
  constexpr int64_t way = 4096, ways = 8, line = 64;
  if (desc.groups != 1 || x.dims.size() != 4 || desc.dtype != KERF_F32 ||
      desc.dstDtype != KERF_F32 || x.strides[1] != 1 || x.dims[1] % 8 != 0 ||
      y.dims[1] % 8 != 0 || numElements(desc.kernel) == 1 ||
      Dnnl::get().dnnl_get_effective_cpu_isa() != dnnl_cpu_isa_avx2)
    return false;
  int64_t apart = std::gcd(
      std::gcd(x.strides[2], x.strides[3]) * dtypeSize(desc.dtype), way);
  int64_t lines = desc.kernel[0] * x.dims[3];
  int64_t held = way / std::max(apart, line) * ways;
  int64_t operations =
      2 * x.dims[1] * numElements(desc.kernel) * numElements(y.dims);
  int64_t bytes = (numElements(x.dims) + numElements(y.dims)) * 4;
  return 2 * lines > 3 * held && operations / 80 > bytes;
}

// The image, the weights and the result of a convolution; gradients have the
// same three tensors in other roles.
struct DnnlCall::ConvTensors {
  explicit ConvTensors(const LibraryDesc &desc)
      : forInput(desc.kind == LibraryDesc::ConvInputGradient),
        forWeights(desc.kind == LibraryDesc::ConvWeightGradient),
        xOperand(forInput ? desc.dst : desc.lhs),
        yOperand(forInput || forWeights ? desc.rhs : desc.dst),
        wOperand(forInput     ? desc.lhs
                 : forWeights ? desc.dst
                              : desc.rhs),
        xType(forInput ? desc.dstDtype : desc.dtype),
        yType(forInput || forWeights ? desc.dtype : desc.dstDtype),
        wType(forWeights ? desc.dstDtype : desc.dtype),
        yDims(windowDims(desc.batch[0], desc.out, desc.outChannels)),
        x(channelsFirst(viewOf(
            xOperand, windowDims(desc.batch[0], desc.in, desc.inChannels)))),
        y(channelsFirst(viewOf(yOperand, yDims))),
        dilates(minusOne(desc.dilations)) {
    Shape dims = {desc.outChannels, desc.inChannels / desc.groups};
    dims.insert(dims.end(), desc.kernel.begin(), desc.kernel.end());
    weights = viewOf(wOperand, dims);
    if (desc.groups > 1) { // [groups, out/groups, in/groups, kernel..]
      int64_t perGroup = desc.outChannels / desc.groups;
      weights.dims[0] = perGroup;
      weights.dims.insert(weights.dims.begin(), desc.groups);
      weights.strides.insert(weights.strides.begin(),
                             weights.strides[0] * perGroup);
    }
  }
  /// Any layout: weights are reordered from (gradients: to) the plain one.
  dnnl_memory_desc_t anyWeights() const { return anyDesc(weights.dims, wType); }

  bool forInput, forWeights;
  const Operand &xOperand, &yOperand, &wOperand;
  kerf_dtype_t xType, yType, wType;
  Shape yDims;
  View x, y, weights;
  Shape dilates; ///< as oneDNN counts: less by 1
};

bool DnnlCall::buildConv() {
  ConvTensors t(desc);
  if (numElements(t.yDims) == 0)
    return true;
  if (!t.forInput && !t.forWeights)
    return buildForwardConv(t);
  if (!desc.postOps.empty())
    throw Error(KERF_BAD_PACKAGE, cat(desc.kindName(), " takes no post-ops"));
  return buildConvGradient(t);
}

bool DnnlCall::buildForwardConv(const ConvTensors &t) {
  auto viewOfPostOp = [&](const Operand &o) {
    return channelsFirst(viewOf(o, t.yDims));
  };
  std::vector<PostOp> mainOps = fusedOps(t.y, viewOfPostOp);
  std::vector<BinaryPostOp> binaries;
  auto attr = mainAttributes(mainOps, viewOfPostOp, binaries);
  dnnl_memory_desc_t xDesc = descOf(t.x, t.xType), yDesc = descOf(t.y, t.yType),
                     weightDesc = t.anyWeights();
  bool hasBias = desc.bias.kind != Operand::None;
  View bias;
  dnnl_memory_desc_t biasDesc;
  if (hasBias) {
    bias = viewOf(desc.bias, {desc.outChannels});
    biasDesc = descOf(bias, desc.dstDtype);
  }
  bool hasOnlyFunctions =
      std::all_of(mainOps.begin(), mainOps.end(), [](const PostOp &post) {
        return post.operand.kind == Operand::None && post.kind != "sum";
      });
  blocked = hasOnlyFunctions && conflictsInCache(t.x, t.y);
  dnnl_memory_desc_t mainX = blocked ? blockedDesc(t.x) : xDesc,
                     mainY = blocked ? blockedDesc(t.y) : yDesc;
  dnnl_convolution_desc_t op;
  Dnnl::check(Dnnl::get().dnnl_dilated_convolution_forward_desc_init(
                  &op, dnnl_forward_inference, dnnl_convolution_direct, &mainX,
                  &weightDesc, hasBias ? &biasDesc : nullptr, &mainY,
                  desc.strides.data(), t.dilates.data(), desc.padsLow.data(),
                  desc.padsHigh.data()),
              "this convolution");
  if (!create(&op, attr.get()))
    return false;
  mainOp = op;
  terms = static_cast<double>(desc.inChannels / desc.groups) *
          static_cast<double>(numElements(desc.kernel));
  dnnl_memory_t packedX =
      blocked ? addReorder(xDesc, mainX, t.xOperand, t.x, true) : nullptr;
  addMainWithWeights(t.wOperand, t.weights);
  if (blocked)
    steps.back().args.push_back({DNNL_ARG_SRC, packedX});
  else
    bind(DNNL_ARG_SRC, t.xOperand, t.x, t.xType);
  watchedLhs = watch(t.xOperand, t.x, t.xType);
  if (hasBias) {
    bind(DNNL_ARG_BIAS, desc.bias, bias, desc.dstDtype);
    watchedBias = watch(desc.bias, bias, desc.dstDtype);
  }
  if (!blocked) {
    bind(DNNL_ARG_DST, t.yOperand, t.y, t.yType);
    finish(binaries, t.y, viewOfPostOp);
    return true;
  }
  dnnl_memory_t packedY = scratchMemory(mainY);
  steps.back().args.push_back({DNNL_ARG_DST, packedY});
  addScratchpad();
  addReorder(mainY, yDesc, t.yOperand, t.y, false);
  steps.back().args.push_back({DNNL_ARG_FROM, packedY});
  watchPostOps(t.y, viewOfPostOp);
  addTail(desc.dst, t.y, viewOfPostOp);
  return true;
}

// oneDNN needs the descriptor of the forward convolution for a gradient.
DnnlHandle<dnnl_primitive_desc_t>
DnnlCall::describeForwardConv(const ConvTensors &t,
                              const dnnl_memory_desc_t &yDesc) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_memory_desc_t xDesc = descOf(t.x, desc.dtype),
                     weightDesc = anyDesc(t.weights.dims, desc.dtype);
  dnnl_convolution_desc_t op;
  Dnnl::check(dnnl.dnnl_dilated_convolution_forward_desc_init(
                  &op, dnnl_forward_training, dnnl_convolution_direct, &xDesc,
                  &weightDesc, nullptr, &yDesc, desc.strides.data(),
                  t.dilates.data(), desc.padsLow.data(), desc.padsHigh.data()),
              "this convolution");
  dnnl_primitive_desc_t raw = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_desc_create(&raw, &op, nullptr,
                                              context.engine.get(), nullptr),
              "this convolution");
  return {raw, dnnl.dnnl_primitive_desc_destroy};
}

bool DnnlCall::buildConvGradient(const ConvTensors &t) {
  const Dnnl &dnnl = Dnnl::get();
  std::vector<BinaryPostOp> binaries;
  auto viewOfPostOp = [&](const Operand &o) {
    return channelsFirst(viewOf(o, t.yDims));
  };
  std::vector<PostOp> mainOps = fusedOps(t.y, viewOfPostOp);
  auto attr = mainAttributes(mainOps, viewOfPostOp, binaries);
  dnnl_memory_desc_t xDesc = descOf(t.x, t.xType), yDesc = descOf(t.y, t.yType),
                     weightDesc = t.anyWeights();
  DnnlHandle<dnnl_primitive_desc_t> forward = describeForwardConv(t, yDesc);
  dnnl_convolution_desc_t op;
  if (t.forInput)
    Dnnl::check(dnnl.dnnl_dilated_convolution_backward_data_desc_init(
                    &op, dnnl_convolution_direct, &xDesc, &weightDesc, &yDesc,
                    desc.strides.data(), t.dilates.data(), desc.padsLow.data(),
                    desc.padsHigh.data()),
                "this convolution gradient");
  else
    Dnnl::check(dnnl.dnnl_dilated_convolution_backward_weights_desc_init(
                    &op, dnnl_convolution_direct, &xDesc, &weightDesc, nullptr,
                    &yDesc, desc.strides.data(), t.dilates.data(),
                    desc.padsLow.data(), desc.padsHigh.data()),
                "this convolution gradient");
  if (!create(&op, attr.get(), forward.get()))
    return false;
  if (t.forInput) {
    addMainWithWeights(t.wOperand, t.weights);
    bind(DNNL_ARG_DIFF_DST, t.yOperand, t.y, t.yType);
    bind(DNNL_ARG_DIFF_SRC, t.xOperand, t.x, t.xType);
    addScratchpad();
    return true;
  }
  addMain();
  bind(DNNL_ARG_SRC, t.xOperand, t.x, t.xType);
  bind(DNNL_ARG_DIFF_DST, t.yOperand, t.y, t.yType);
  dnnl_memory_desc_t plain = descOf(t.weights, t.wType),
                     wanted = *dnnl.dnnl_primitive_desc_query_md(
                         primitiveDesc.get(), dnnl_query_diff_weights_md, 0);
  if (dnnl.dnnl_memory_desc_equal(&plain, &wanted)) {
    bind(DNNL_ARG_DIFF_WEIGHTS, t.wOperand, t.weights, t.wType);
    addScratchpad();
    return true;
  }
  dnnl_memory_t packed = scratchMemory(wanted);
  steps.back().args.push_back({DNNL_ARG_DIFF_WEIGHTS, packed});
  addScratchpad();
  addReorder(wanted, plain, t.wOperand, t.weights, false);
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
  std::vector<PostOp> mainOps = fusedOps(dst, viewOfPostOp);
  std::vector<BinaryPostOp> binaries;
  auto attr = mainAttributes(mainOps, viewOfPostOp, binaries);
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
  mainOp = op;
  addMain();
  bind(DNNL_ARG_SRC, desc.lhs, src, desc.dtype);
  watchedLhs = watch(desc.lhs, src, desc.dtype);
  bind(DNNL_ARG_DST, desc.dst, dst, desc.dstDtype);
  finish(binaries, dst, viewOfPostOp);
  return true;
}
