//===- Contractions.cpp - matmul, convolution, reductions, norms ----------===//
#include "Evaluate.h"

#include "kerf/NN/IR/Elements.h"
#include "kerf/NN/NN.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

Tensor matmul(nn::MatmulOp op, Operands operands) {
  const Tensor &lhs = *operands[0], &rhs = *operands[1];
  Tensor result(resultShape(op));
  size_t rank = result.shape.size();
  int64_t k = lhs.shape[lhs.shape.size() - (op.getTransposeLhs() ? 2 : 1)];
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    Index left(index), right(index);
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      left[rank - 2] = op.getTransposeLhs() ? i : index[rank - 2];
      left[rank - 1] = op.getTransposeLhs() ? index[rank - 2] : i;
      right[rank - 2] = op.getTransposeRhs() ? index[rank - 1] : i;
      right[rank - 1] = op.getTransposeRhs() ? i : index[rank - 1];
      sum += lhs.broadcastAt(left) * rhs.broadcastAt(right);
    }
    result.data[next++] = sum;
  });
  return result;
}

Tensor conv(nn::ConvOp op, Operands operands) {
  const Tensor &x = *operands[0], &w = *operands[1];
  Tensor result(resultShape(op));
  size_t spatial = x.shape.size() - 2, rank = x.shape.size();
  int64_t groups = op.getGroups(), channels = w.shape[1];
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    int64_t out = index[rank - 1], group = out / (w.shape[0] / groups);
    double sum = 0;
    forEachIndex(
        ArrayRef<int64_t>(w.shape).drop_front(2), [&](ArrayRef<int64_t> tap) {
          Index from(index);
          for (size_t d = 0; d < spatial; ++d)
            from[d + 1] = index[d + 1] * op.getStrides()[d] +
                          tap[d] * op.getDilations()[d] - op.getLow()[d];
          for (int64_t c = 0; c < channels; ++c) {
            from[rank - 1] = group * channels + c;
            Index weight{out, c};
            weight.append(tap.begin(), tap.end());
            if (x.contains(from))
              sum += x.at(from) * w.at(weight);
          }
        });
    result.data[next++] = sum;
  });
  return result;
}

Tensor maxPool(nn::MaxPoolOp op, Operands operands) {
  const Tensor &x = *operands[0];
  Tensor result(resultShape(op));
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    double best = -INFINITY;
    forEachIndex(op.getKernel(), [&](ArrayRef<int64_t> tap) {
      Index from(index);
      for (size_t d = 0; d < tap.size(); ++d)
        from[d + 1] = index[d + 1] * op.getStrides()[d] +
                      tap[d] * op.getDilations()[d] - op.getLow()[d];
      if (x.contains(from) && !(x.at(from) <= best))
        best = x.at(from);
    });
    result.data[next++] = best;
  });
  return result;
}

/// The mean over the positions inside the image, or inside its padding.
Tensor avgPool(nn::AvgPoolOp op, Operands operands) {
  const Tensor &x = *operands[0];
  ArrayRef<int64_t> high =
      op.getCountHigh() ? *op.getCountHigh() : ArrayRef<int64_t>(op.getHigh());
  Tensor result(resultShape(op));
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    double sum = 0, count = 0;
    forEachIndex(op.getKernel(), [&](ArrayRef<int64_t> tap) {
      Index from(index);
      bool padded = true;
      for (size_t d = 0; d < tap.size(); ++d) {
        from[d + 1] = index[d + 1] * op.getStrides()[d] +
                      tap[d] * op.getDilations()[d] - op.getLow()[d];
        padded &= from[d + 1] < x.shape[d + 1] + high[d];
      }
      bool inside = x.contains(from);
      sum += inside ? x.at(from) : 0;
      count += inside || (op.getCountIncludePad() && padded);
    });
    result.data[next++] = sum / std::max(count, 1.0);
  });
  return result;
}

Tensor lrn(nn::LRNOp op, Operands operands) {
  const Tensor &x = *operands[0];
  int64_t size = op.getSize(), channels = x.shape.back();
  double alpha = op.getAlpha().convertToDouble(),
         beta = op.getBeta().convertToDouble(),
         bias = op.getBias().convertToDouble();
  Tensor result(resultShape(op));
  for (int64_t i = 0; i < int64_t(x.data.size()); ++i) {
    int64_t c = i % channels;
    double squares = 0;
    for (int64_t d = -((size - 1) / 2); d <= size / 2; ++d)
      if (c + d >= 0 && c + d < channels)
        squares += x.data[i + d] * x.data[i + d];
    result.data[i] =
        x.data[i] / std::pow(bias + alpha / double(size) * squares, beta);
  }
  return result;
}

double combine(nn::ReduceKind kind, double a, double b) {
  switch (kind) {
  case nn::ReduceKind::Sum:
    return a + b;
  case nn::ReduceKind::Max:
    return std::isnan(a) || a > b ? a : b;
  case nn::ReduceKind::Min:
    return std::isnan(a) || a < b ? a : b;
  case nn::ReduceKind::Prod:
    return a * b;
  }
  llvm_unreachable("bad ReduceKind");
}

Tensor reduce(nn::ReduceOp op, Operands operands) {
  const double start[] = {0, -INFINITY, INFINITY, 1};
  Tensor result(resultShape(op), start[static_cast<int>(op.getKind())]);
  forEachIndex(operands[0]->shape, [&](ArrayRef<int64_t> index) {
    Index kept;
    for (size_t d = 0; d < index.size(); ++d)
      if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(d)))
        kept.push_back(index[d]);
    double &value = result.at(kept);
    value = combine(op.getKind(), value, operands[0]->at(index));
  });
  return result;
}

Tensor argReduce(nn::ArgReduceOp op, Operands operands) {
  Tensor result(resultShape(op)), best(resultShape(op));
  forEachIndex(operands[0]->shape, [&](ArrayRef<int64_t> index) {
    Index kept(index);
    kept.erase(kept.begin() + op.getDim());
    double value = operands[0]->at(index) * (op.getMin() ? -1 : 1);
    int64_t here = index[op.getDim()];
    double known = best.at(kept);
    bool isNaN = std::isnan(value), wasNaN = here != 0 && std::isnan(known);
    if (here == 0 || value > known || (isNaN && !wasNaN) ||
        (op.getLast() && (value == known || (isNaN && wasNaN)))) {
      best.at(kept) = value;
      result.at(kept) = static_cast<double>(here);
    }
  });
  return result;
}

Tensor topK(nn::TopKOp op, Operands operands) {
  Tensor result(resultShape(op));
  auto size = static_cast<size_t>(operands[0]->shape.back());
  llvm::SmallVector<size_t> order(size);
  for (size_t row = 0; row < result.data.size() / op.getK(); ++row) {
    const double *x = operands[0]->data.data() + row * size;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (op.getSmallest())
        std::swap(a, b);
      return std::isnan(x[a]) ? !std::isnan(x[b]) : x[a] > x[b];
    });
    for (size_t p = 0; p < op.getK(); ++p)
      result.data[row * op.getK() + p] = static_cast<double>(order[p]);
  }
  return result;
}

/// Whether two boxes have more than `threshold` of their union in common.
bool overlap(const double *a, const double *b, float threshold) {
  float low[2][2], high[2][2], common = 1;
  for (size_t box = 0; box < 2; ++box)
    for (size_t axis = 0; axis < 2; ++axis) {
      auto first = static_cast<float>((box ? b : a)[axis]),
           second = static_cast<float>((box ? b : a)[axis + 2]);
      low[box][axis] = std::min(first, second);
      high[box][axis] = std::max(first, second);
    }
  auto area = [&](size_t box) {
    return (high[box][1] - low[box][1]) * (high[box][0] - low[box][0]);
  };
  for (size_t axis : {1, 0}) {
    float from = std::max(low[0][axis], low[1][axis]),
          to = std::min(high[0][axis], high[1][axis]);
    if (!(to > from))
      return false;
    common *= to - from;
  }
  float both = area(0) + area(1) - common;
  return common > 0 && area(0) > 0 && area(1) > 0 && both > 0 &&
         common / both > threshold;
}

Tensor greedySuppress(nn::GreedySuppressOp op, Operands operands) {
  Tensor result(resultShape(op));
  const Tensor &boxes = *operands[0], &scores = *operands[1];
  auto rows = static_cast<size_t>(scores.shape.back()),
       classes = static_cast<size_t>(scores.shape[scores.shape.size() - 2]);
  auto threshold = static_cast<float>(operands[2]->data[0]);
  double most = operands[3]->data[0];
  llvm::SmallVector<size_t> order(rows);
  for (size_t row = 0; row < result.data.size() / op.getCount(); ++row) {
    const double *score = scores.data.data() + row * rows,
                 *box = boxes.data.data() + row / classes * rows * 4;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::isnan(score[a]) < std::isnan(score[b]) || score[a] > score[b];
    });
    llvm::SmallVector<size_t> kept;
    for (size_t i : order)
      if (!std::isnan(score[i]) && kept.size() < op.getCount() &&
          static_cast<double>(kept.size()) < most &&
          llvm::none_of(kept, [&](size_t better) {
            return overlap(box + 4 * better, box + 4 * i, threshold);
          }))
        kept.push_back(i);
    for (size_t p = 0; p < op.getCount(); ++p)
      result.data[row * op.getCount() + p] =
          p < kept.size() ? static_cast<double>(kept[p]) : -1;
  }
  return result;
}

Tensor softmax(Operation *op, uint64_t dim, bool log, Operands operands) {
  const Tensor &x = *operands[0];
  Tensor result(resultShape(op));
  Index rows(x.shape);
  rows[dim] = 1;
  forEachIndex(rows, [&](ArrayRef<int64_t> row) {
    Index index(row);
    double max = -INFINITY, sum = 0;
    for (index[dim] = 0; index[dim] < x.shape[dim]; ++index[dim])
      max = std::max(max, x.at(index));
    for (index[dim] = 0; index[dim] < x.shape[dim]; ++index[dim])
      sum += std::exp(x.at(index) - max);
    for (index[dim] = 0; index[dim] < x.shape[dim]; ++index[dim]) {
      double value = x.at(index) - max;
      result.at(index) = log ? value - std::log(sum) : std::exp(value) / sum;
    }
  });
  return result;
}

/// The elements of a row, for its statistics. A program adds up in f32 (f64 for
/// f64), where a sum of squares overflows long before its root would.
struct RowFloats : nn::HostFloats {
  ArrayRef<double> row;
  double largest = 0; ///< that a sum can be

  template <typename F> V sum(F f) const {
    double sum = 0;
    for (double x : row)
      sum += f(x);
    return std::fabs(sum) > largest ? std::copysign(INFINITY, sum) : sum;
  }
  template <typename F> V mean(F f) const {
    return sum(f) / static_cast<double>(row.size());
  }
};

/// Normalization over the trailing dimensions.
template <typename Op> Tensor normalize(Op op, Operands operands) {
  const Tensor &x = *operands[0];
  Tensor result(resultShape(op));
  size_t inner = 1;
  for (int64_t dim : op.getRowDims())
    inner *= x.shape[dim];
  for (size_t begin = 0; begin < x.data.size(); begin += inner) {
    RowFloats s;
    s.largest = op.getType().getElementType().isF64()
                    ? std::numeric_limits<double>::max()
                    : std::numeric_limits<float>::max();
    s.row = ArrayRef(x.data).slice(begin, inner);
    llvm::SmallVector<double> in{0};
    llvm::append_range(in, op.statistics(s));
    size_t statistics = in.size();
    in.resize(statistics + operands.size() - 1);
    for (size_t i = 0; i < inner; ++i) {
      in[0] = s.row[i];
      for (size_t k = 1; k < operands.size(); ++k)
        in[statistics + k - 1] = operands[k]->data[i];
      result.data[begin + i] = op.onRow(s, ArrayRef<double>(in));
    }
  }
  return result;
}

MaybeTensor norm(Operation *op, Operands operands) {
  MaybeTensor result;
  nn::visitOps(op, [&](auto typed) {
    if constexpr (decltype(typed)::template hasTrait<nn::Norm>())
      result = normalize(typed, operands);
    return true;
  });
  return result;
}

Tensor batchNorm(nn::BatchNormOp op, Operands operands) {
  Tensor result(resultShape(op));
  size_t channels = result.shape.back();
  double epsilon = op.getEpsilon().convertToDouble();
  for (size_t i = 0; i < result.data.size(); ++i) {
    size_t c = i % channels;
    result.data[i] = (operands[0]->data[i] - operands[3]->data[c]) /
                         std::sqrt(operands[4]->data[c] + epsilon) *
                         operands[1]->data[c] +
                     operands[2]->data[c];
  }
  return result;
}

} // namespace

MaybeTensor kerf::interpret::evaluateContraction(Operation *op,
                                                 Operands operands) {
  if (auto it = dyn_cast<nn::MatmulOp>(op))
    return matmul(it, operands);
  if (auto it = dyn_cast<nn::ConvOp>(op))
    return conv(it, operands);
  if (auto it = dyn_cast<nn::MaxPoolOp>(op))
    return maxPool(it, operands);
  if (auto it = dyn_cast<nn::AvgPoolOp>(op))
    return avgPool(it, operands);
  if (auto it = dyn_cast<nn::LRNOp>(op))
    return lrn(it, operands);
  if (auto it = dyn_cast<nn::ReduceOp>(op))
    return reduce(it, operands);
  if (auto it = dyn_cast<nn::TopKOp>(op))
    return topK(it, operands);
  if (auto it = dyn_cast<nn::GreedySuppressOp>(op))
    return greedySuppress(it, operands);
  if (auto it = dyn_cast<nn::ArgReduceOp>(op))
    return argReduce(it, operands);
  if (auto it = dyn_cast<nn::SoftmaxOp>(op))
    return softmax(op, it.getDim(), false, operands);
  if (auto it = dyn_cast<nn::LogSoftmaxOp>(op))
    return softmax(op, it.getDim(), true, operands);
  if (auto it = dyn_cast<nn::BatchNormOp>(op))
    return batchNorm(it, operands);
  return norm(op, operands);
}
