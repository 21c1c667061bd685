//===- Gradients.cpp - gradients of windows and gathers, random numbers ---===//
//
// Each is the forward loop with reads and additions exchanged: an element that
// the forward reads is added to.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/IR/Philox.h"
#include "kerf/NN/NN.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

/// The image element that `tap` of the window at `index` reads.
template <typename Op>
Index imageIndex(Op op, ArrayRef<int64_t> index, ArrayRef<int64_t> tap) {
  Index from(index);
  for (size_t d = 0; d < tap.size(); ++d)
    from[d + 1] = index[d + 1] * op.getStrides()[d] +
                  tap[d] * op.getDilations()[d] - op.getLow()[d];
  return from;
}

/// Visits every product of a convolution: position in `dy`, in the image (which
/// it lies inside) and in the weights.
template <typename Op>
void forEachProduct(
    Op op, ArrayRef<int64_t> dy, const Tensor &image, ArrayRef<int64_t> weights,
    llvm::function_ref<void(ArrayRef<int64_t>, const Index &, const Index &)>
        visit) {
  int64_t groups = op.getGroups(), channels = weights[1];
  forEachIndex(dy, [&](ArrayRef<int64_t> index) {
    int64_t out = index.back(), group = out / (weights[0] / groups);
    forEachIndex(weights.drop_front(2), [&](ArrayRef<int64_t> tap) {
      Index from = imageIndex(op, index, tap);
      Index weight{out, 0};
      weight.append(tap.begin(), tap.end());
      for (int64_t c = 0; c < channels; ++c) {
        from.back() = group * channels + c;
        weight[1] = c;
        if (image.contains(from))
          visit(index, from, weight);
      }
    });
  });
}

Tensor convInputGradient(nn::ConvInputGradientOp op, Operands operands) {
  const Tensor &dy = *operands[0], &w = *operands[1];
  Tensor result(resultShape(op));
  forEachProduct(
      op, dy.shape, result, w.shape,
      [&](ArrayRef<int64_t> index, const Index &from, const Index &weight) {
        result.at(from) += dy.at(index) * w.at(weight);
      });
  return result;
}

Tensor convWeightGradient(nn::ConvWeightGradientOp op, Operands operands) {
  const Tensor &x = *operands[0], &dy = *operands[1];
  Tensor result(resultShape(op));
  forEachProduct(
      op, dy.shape, x, result.shape,
      [&](ArrayRef<int64_t> index, const Index &from, const Index &weight) {
        result.at(weight) += dy.at(index) * x.at(from);
      });
  return result;
}

Tensor maxPoolGradient(nn::MaxPoolGradientOp op, Operands operands) {
  const Tensor &x = *operands[0], &dy = *operands[1];
  Tensor result(resultShape(op));
  forEachIndex(dy.shape, [&](ArrayRef<int64_t> index) {
    std::optional<Index> best;
    forEachIndex(op.getKernel(), [&](ArrayRef<int64_t> tap) {
      Index from = imageIndex(op, index, tap);
      if (!x.contains(from) || (best && std::isnan(x.at(*best))))
        return;
      if (!best || x.at(from) > x.at(*best) || std::isnan(x.at(from)))
        best = from;
    });
    if (best)
      result.at(*best) += dy.at(index);
  });
  return result;
}

Tensor avgPoolGradient(nn::AvgPoolGradientOp op, Operands operands) {
  const Tensor &dy = *operands[0];
  ArrayRef<int64_t> high =
      op.getCountHigh() ? *op.getCountHigh() : ArrayRef<int64_t>(op.getHigh());
  Tensor result(resultShape(op));
  forEachIndex(dy.shape, [&](ArrayRef<int64_t> index) {
    std::vector<Index> inside;
    double count = 0;
    forEachIndex(op.getKernel(), [&](ArrayRef<int64_t> tap) {
      Index from = imageIndex(op, index, tap);
      bool padded = true;
      for (size_t d = 0; d < tap.size(); ++d)
        padded &= from[d + 1] < result.shape[d + 1] + high[d];
      bool held = result.contains(from);
      count += held || (op.getCountIncludePad() && padded);
      if (held)
        inside.push_back(from);
    });
    for (const Index &from : inside)
      result.at(from) += dy.at(index) / count;
  });
  return result;
}

Tensor scatterAdd(nn::ScatterAddOp op, Operands operands) {
  const Tensor &indices = *operands[0], &updates = *operands[1];
  Tensor result(resultShape(op));
  size_t dim = op.getDim(), numIndexDims = indices.shape.size();
  forEachIndex(updates.shape, [&](ArrayRef<int64_t> index) {
    double row = indices.at(index.slice(dim, numIndexDims));
    if (auto to = scatterTarget(op, result, row, index, dim + numIndexDims))
      result.at(*to) += updates.at(index);
  });
  return result;
}

Tensor philox(nn::PhiloxOp op, Operands operands) {
  Tensor result(resultShape(op));
  auto word = [](double value) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  };
  for (auto [to, index] : llvm::zip(result.data, operands[0]->data))
    to = nn::philoxUniform(word(index), word(operands[1]->data[0]),
                           word(operands[2]->data[0]),
                           static_cast<uint32_t>(op.getStream()));
  return result;
}

} // namespace

MaybeTensor kerf::interpret::evaluateGradient(Operation *op,
                                              Operands operands) {
  if (auto it = dyn_cast<nn::ConvInputGradientOp>(op))
    return convInputGradient(it, operands);
  if (auto it = dyn_cast<nn::ConvWeightGradientOp>(op))
    return convWeightGradient(it, operands);
  if (auto it = dyn_cast<nn::MaxPoolGradientOp>(op))
    return maxPoolGradient(it, operands);
  if (auto it = dyn_cast<nn::AvgPoolGradientOp>(op))
    return avgPoolGradient(it, operands);
  if (auto it = dyn_cast<nn::ScatterAddOp>(op))
    return scatterAdd(it, operands);
  if (auto it = dyn_cast<nn::PhiloxOp>(op))
    return philox(it, operands);
  return std::nullopt;
}
