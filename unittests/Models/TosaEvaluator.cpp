//===- TosaEvaluator.cpp - TOSA ops that move elements --------------------===//
#include "TosaEvaluator.h"

#include "mlir/Dialect/Tosa/IR/TosaOps.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::forEachIndex;
using interpret::Index;
using interpret::Tensor;
using Operands = ArrayRef<const Tensor *>;

namespace {

SmallVector<int64_t> numbers(Value shape) {
  SmallVector<int64_t> result;
  for (const APInt &number :
       shape.getDefiningOp<tosa::ConstShapeOp>().getValues().getValues<APInt>())
    result.push_back(number.getSExtValue());
  return result;
}

/// Calls visit(input index) for each place of a window that is in the input.
template <typename Op>
void forEachInWindow(Op op, const Tensor &x, ArrayRef<int64_t> out,
                     llvm::function_ref<void(const Index &)> visit) {
  ArrayRef<int64_t> pad = op.getPad(), stride = op.getStride();
  forEachIndex(SmallVector<int64_t>(op.getKernel()), [&](ArrayRef<int64_t> k) {
    Index at = {out[0], out[1] * stride[0] + k[0] - pad[0],
                out[2] * stride[1] + k[1] - pad[2], out[3]};
    if (x.contains(at))
      visit(at);
  });
}

void depthwise(tosa::DepthwiseConv2DOp op, Operands x, Tensor &result) {
  ArrayRef<int64_t> pad = op.getPad(), stride = op.getStride(),
                    dilation = op.getDilation();
  int64_t each = x[1]->shape[3];
  forEachIndex(result.shape, [&](ArrayRef<int64_t> out) {
    double sum = x[2]->data[x[2]->shape[0] == 1 ? 0 : out[3]];
    for (int64_t i = 0; i < x[1]->shape[0]; ++i)
      for (int64_t j = 0; j < x[1]->shape[1]; ++j) {
        Index at = {out[0], out[1] * stride[0] + i * dilation[0] - pad[0],
                    out[2] * stride[1] + j * dilation[1] - pad[2],
                    out[3] / each};
        if (x[0]->contains(at))
          sum += x[0]->at(at) * x[1]->at({i, j, out[3] / each, out[3] % each});
      }
    result.at(out) = sum;
  });
}

void convolveVolume(tosa::Conv3DOp op, Operands x, Tensor &result) {
  ArrayRef<int64_t> pad = op.getPad(), stride = op.getStride(),
                    dilation = op.getDilation();
  forEachIndex(result.shape, [&](ArrayRef<int64_t> out) {
    double sum = x[2]->data[x[2]->shape[0] == 1 ? 0 : out[4]];
    forEachIndex(ArrayRef(x[1]->shape).drop_front(), [&](ArrayRef<int64_t> k) {
      Index at = {out[0]};
      for (unsigned d = 0; d < 3; ++d)
        at.push_back(out[d + 1] * stride[d] + k[d] * dilation[d] - pad[2 * d]);
      at.push_back(k[3]);
      if (x[0]->contains(at))
        sum += x[0]->at(at) * x[1]->at({out[4], k[0], k[1], k[2], k[3]});
    });
    result.at(out) = sum;
  });
}

} // namespace

std::optional<Tensor> kerf::test::evaluateTosaMoves(Operation *op, Operands x) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type)
    return std::nullopt;
  Tensor result(type.getShape());
  auto fill = [&](llvm::function_ref<double(Index)> element) {
    forEachIndex(result.shape, [&](ArrayRef<int64_t> at) {
      result.at(at) = element(Index(at));
    });
    return std::optional(result);
  };
  if (auto slice = dyn_cast<tosa::SliceOp>(op)) {
    SmallVector<int64_t> starts = numbers(slice.getStart());
    return fill([&](Index at) {
      for (auto [dim, begin] : llvm::enumerate(starts))
        at[dim] += begin;
      return x[0]->at(at);
    });
  }
  if (auto pad = dyn_cast<tosa::PadOp>(op)) {
    SmallVector<int64_t> padding = numbers(pad.getPadding());
    return fill([&](Index at) {
      for (size_t dim = 0; dim < at.size(); ++dim)
        at[dim] -= padding[2 * dim];
      return x[0]->contains(at) ? x[0]->at(at) : x[2]->data[0];
    });
  }
  if (isa<tosa::TileOp>(op))
    return fill([&](Index at) {
      for (size_t dim = 0; dim < at.size(); ++dim)
        at[dim] %= x[0]->shape[dim];
      return x[0]->at(at);
    });
  if (auto reverse = dyn_cast<tosa::ReverseOp>(op))
    return fill([&](Index at) {
      unsigned dim = reverse.getAxis();
      at[dim] = x[0]->shape[dim] - 1 - at[dim];
      return x[0]->at(at);
    });
  if (auto most = dyn_cast<tosa::ArgMaxOp>(op))
    return fill([&](Index at) {
      Index from(at);
      from.insert(from.begin() + most.getAxis(), 0);
      int64_t best = 0;
      double largest = x[0]->at(from);
      for (int64_t i = 1; i < x[0]->shape[most.getAxis()]; ++i) {
        from[most.getAxis()] = i;
        if (x[0]->at(from) > largest) {
          largest = x[0]->at(from);
          best = i;
        }
      }
      return static_cast<double>(best);
    });
  if (isa<tosa::GatherOp>(op))
    return fill([&](Index at) {
      return x[0]->at(
          {at[0], static_cast<int64_t>(x[1]->at({at[0], at[1]})), at[2]});
    });
  if (isa<tosa::ScatterOp>(op)) {
    result = *x[0];
    forEachIndex(x[2]->shape, [&](ArrayRef<int64_t> at) {
      result.at({at[0], static_cast<int64_t>(x[1]->at({at[0], at[1]})),
                 at[2]}) = x[2]->at(at);
    });
    return result;
  }
  if (auto pool = dyn_cast<tosa::MaxPool2dOp>(op))
    return fill([&](Index at) {
      double most = -INFINITY;
      forEachInWindow(pool, *x[0], at, [&](const Index &from) {
        most =
            std::isnan(x[0]->at(from)) ? NAN : std::max(most, x[0]->at(from));
      });
      return most;
    });
  if (auto pool = dyn_cast<tosa::AvgPool2dOp>(op))
    return fill([&](Index at) {
      double sum = 0, count = 0;
      forEachInWindow(pool, *x[0], at, [&](const Index &from) {
        sum += x[0]->at(from);
        ++count;
      });
      return sum / count;
    });
  if (auto conv = dyn_cast<tosa::DepthwiseConv2DOp>(op)) {
    depthwise(conv, x, result);
    return result;
  }
  if (auto conv = dyn_cast<tosa::Conv3DOp>(op)) {
    convolveVolume(conv, x, result);
    return result;
  }
  return std::nullopt;
}
