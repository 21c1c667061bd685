//===- TouchedRanges.cpp - the bytes that a library call touches ----------===//
#include "TouchedRanges.h"

#include "../base/Types.h"
#include "../package/AttentionOperands.h"

using namespace kerf::rt;

namespace {
class Ranges {
public:
  explicit Ranges(const LibraryDesc &desc) : desc(desc) { addOperands(); }

  std::vector<TouchedRange> operands;

private:
  void add(const Operand &operand, const Shape &dims, kerf_dtype_t dtype,
           bool writes = false, bool reads = true) {
    if (operand.kind != Operand::Buffer)
      return;
    Shape strides = operand.strides;
    if (strides.empty())
      strides = denseStrides(dims); // a transpose covers the same bytes
    int64_t last = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 0)
        return;
      last += (dims[d] - 1) * strides[d];
    }
    int64_t size = dtypeSize(dtype);
    operands.push_back({operand.index, operand.offset * size, (last + 1) * size,
                        reads || !writes, writes, dtype});
  }

  void addOperands() {
    if (desc.isAttention()) {
      for (const AttentionOperand &o : attentionOperands(desc))
        add(*o.operand, o.dims, o.dtype, o.writes, !o.writes);
      return;
    }
    auto with = [&](Shape dims, std::initializer_list<int64_t> more) {
      dims.insert(dims.end(), more);
      return dims;
    };
    auto image = [&](const Shape &spatial, int64_t channels) {
      Shape dims = desc.batch;
      dims.insert(dims.end(), spatial.begin(), spatial.end());
      dims.push_back(channels);
      return dims;
    };
    Shape weights = {desc.outChannels, desc.inChannels / desc.groups};
    weights.insert(weights.end(), desc.kernel.begin(), desc.kernel.end());
    Shape in = image(desc.in, desc.inChannels),
          out = image(desc.out, desc.outChannels);
    bool sum = !desc.postOps.empty() && desc.postOps[0].kind == "sum";
    Shape dst = out;
    switch (desc.kind) {
    case LibraryDesc::Matmul:
      dst = with(desc.batch, {desc.m, desc.n});
      add(desc.lhs, with(desc.batch, {desc.m, desc.k}), desc.dtype);
      add(desc.rhs, with(desc.batch, {desc.k, desc.n}), desc.dtype);
      break;
    case LibraryDesc::Conv:
      add(desc.lhs, in, desc.dtype);
      add(desc.rhs, weights, desc.dtype);
      break;
    case LibraryDesc::Pool:
      add(desc.lhs, in, desc.dtype);
      break;
    case LibraryDesc::ConvInputGradient:
      add(desc.lhs, weights, desc.dtype);
      add(desc.rhs, out, desc.dtype);
      dst = in;
      break;
    case LibraryDesc::ConvWeightGradient:
      add(desc.lhs, in, desc.dtype);
      add(desc.rhs, out, desc.dtype);
      dst = weights;
      break;
    case LibraryDesc::MaxPoolGradient:
      add(desc.lhs, in, desc.dtype);
      add(desc.rhs, out, desc.dtype);
      dst = in;
      break;
    case LibraryDesc::AvgPoolGradient:
      add(desc.rhs, out, desc.dtype);
      dst = in;
      break;
    case LibraryDesc::ScatterAdd:
      dst = {desc.outer, desc.rows, desc.inner};
      add(desc.lhs, {desc.outer, desc.count, desc.inner}, desc.dtype);
      add(desc.rhs, {desc.count}, desc.indexDtype);
      add(desc.bias, dst, desc.dtype);
      break;
    case LibraryDesc::Scatter:
      dst = {desc.outer, desc.rows, desc.inner};
      add(desc.lhs, {desc.outer, desc.count, desc.inner}, desc.dtype);
      add(desc.rhs, {desc.outer, desc.count}, desc.indexDtype);
      add(desc.bias, dst, desc.dtype);
      break;
    case LibraryDesc::TopK:
      dst = {desc.outer, desc.count};
      add(desc.lhs, {desc.outer, desc.rows}, desc.dtype);
      break;
    case LibraryDesc::GreedySuppress:
      dst = {desc.outer, desc.inner, desc.count};
      add(desc.lhs, {desc.outer, desc.rows, 4}, desc.dtype);
      add(desc.rhs, {desc.outer, desc.inner, desc.rows}, desc.dtype);
      add(desc.bias, {1}, desc.dtype);
      add(desc.most, {1}, KERF_I64);
      break;
    default: // has other operands
      break;
    }
    if (desc.kind != LibraryDesc::ScatterAdd &&
        desc.kind != LibraryDesc::Scatter &&
        desc.kind != LibraryDesc::GreedySuppress)
      add(desc.bias,
          {desc.kind == LibraryDesc::Matmul ? desc.n : desc.outChannels},
          desc.dstDtype);
    for (const PostOp &op : desc.postOps)
      add(op.operand, dst, desc.dstDtype);
    add(desc.dst, dst, desc.dstDtype, true, sum);
  }

  const LibraryDesc &desc;
};
} // namespace

std::vector<TouchedRange> kerf::rt::touchedRanges(const LibraryDesc &desc) {
  return Ranges(desc).operands;
}
