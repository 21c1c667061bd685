//===- UnfusedElements.cpp - loops over rows of elements ------------------===//
//
// An elementwise op, a broadcast, a transpose, a slice and a reduction are each
// a walk over an index space in which every tensor has a stride per dimension
// (0 where it is broadcast or reduced). Neighbouring dimensions that one stride
// describes for all tensors are merged, so that the inner loop is long.
//
//===----------------------------------------------------------------------===//
#include "Unfused.h"

#include "kerf/NN/NN.h"

#include <array>
#include <cmath>
#include <thread>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

void kerf::interpret::parallelFor(
    int64_t count, int64_t grain, unsigned threads,
    llvm::function_ref<void(int64_t, int64_t)> body) {
  int64_t parts =
      std::min<int64_t>(threads, count / std::max<int64_t>(grain, 1));
  if (parts < 2)
    return body(0, count);
  std::vector<std::thread> others;
  for (int64_t part = 1; part < parts; ++part)
    others.emplace_back(
        [&, part] { body(count * part / parts, count * (part + 1) / parts); });
  body(0, count / parts);
  for (std::thread &thread : others)
    thread.join();
}

namespace {

/// Strides of a dense tensor.
Index denseStrides(ArrayRef<int64_t> shape) {
  Index strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// Strides of `shape` right-aligned in an index space of `rank` dimensions.
Index broadcastStrides(ArrayRef<int64_t> shape, size_t rank) {
  Index dense = denseStrides(shape), strides(rank, 0);
  for (size_t d = 0; d < shape.size(); ++d)
    strides[rank - shape.size() + d] = shape[d] == 1 ? 0 : dense[d];
  return strides;
}

/// An index space through which N tensors step with strides of their own.
template <size_t N> struct Walk {
  Index shape;
  std::array<Index, N> strides;

  /// Merges neighbouring dimensions if one stride describes both for every
  /// tensor; the last dimension is the inner loop.
  void join() {
    for (size_t d = 0; d < shape.size();)
      if (shape[d] == 1 && shape.size() > 1)
        drop(d);
      else
        ++d;
    for (size_t d = 0; d + 1 < shape.size();) {
      bool even = true;
      for (const Index &stride : strides)
        even &= stride[d] == stride[d + 1] * shape[d + 1];
      if (!even) {
        ++d;
        continue;
      }
      shape[d + 1] *= shape[d];
      drop(d);
    }
    if (shape.empty()) {
      shape.push_back(1);
      for (Index &stride : strides)
        stride.push_back(0);
    }
  }

  /// visit(offset of each tensor, length) for every row.
  template <typename Visit> void run(unsigned threads, Visit visit) {
    join();
    if (llvm::is_contained(shape, 0))
      return;
    int64_t rows = 1;
    for (int64_t size : ArrayRef(shape).drop_back())
      rows *= size;
    int64_t length = shape.back();
    // A single long row is divided as well.
    int64_t cuts = rows == 1 ? std::max<int64_t>(1, length / 65536) : 1;
    parallelFor(rows * cuts, std::max<int64_t>(1, 65536 * cuts / length),
                threads, [&](int64_t begin, int64_t end) {
                  for (int64_t part = begin; part < end; ++part) {
                    std::array<int64_t, N> at{};
                    int64_t rest = part / cuts;
                    for (size_t d = shape.size() - 1; d-- > 0;) {
                      int64_t i = rest % shape[d];
                      rest /= shape[d];
                      for (size_t n = 0; n < N; ++n)
                        at[n] += i * strides[n][d];
                    }
                    int64_t from = part % cuts * length / cuts;
                    int64_t to = (part % cuts + 1) * length / cuts;
                    for (size_t n = 0; n < N; ++n)
                      at[n] += from * strides[n].back();
                    visit(at, to - from);
                  }
                });
  }

private:
  void drop(size_t d) {
    shape.erase(shape.begin() + d);
    for (Index &stride : strides)
      stride.erase(stride.begin() + d);
  }
};

/// result = function(operands), broadcast.
template <size_t N, typename Function>
Tensor map(Operation *op, Operands operands, unsigned threads,
           Function function) {
  Tensor result(resultShape(op));
  Walk<N + 1> walk;
  walk.shape = result.shape;
  walk.strides[0] = denseStrides(result.shape);
  for (size_t n = 0; n < N; ++n)
    walk.strides[n + 1] =
        broadcastStrides(operands[n]->shape, result.shape.size());
  walk.run(threads, [&](std::array<int64_t, N + 1> at, int64_t length) {
    std::array<int64_t, N> step;
    std::array<const double *, N> from;
    for (size_t n = 0; n < N; ++n) {
      step[n] = walk.strides[n + 1].back();
      from[n] = operands[n]->data.data() + at[n + 1];
    }
    double *to = result.data.data() + at[0];
    for (int64_t i = 0; i < length; ++i) {
      if constexpr (N == 1)
        to[i] = function(from[0][i * step[0]]);
      else if constexpr (N == 2)
        to[i] = function(from[0][i * step[0]], from[1][i * step[1]]);
      else
        to[i] = function(from[0][i * step[0]], from[1][i * step[1]],
                         from[2][i * step[2]]);
    }
  });
  return result;
}

/// result[i] = x[start + i . strides].
Tensor strided(Operation *op, const Tensor &x, int64_t start, Index strides,
               unsigned threads) {
  Tensor result(resultShape(op));
  Walk<2> walk{result.shape, {denseStrides(result.shape), std::move(strides)}};
  walk.run(threads, [&](std::array<int64_t, 2> at, int64_t length) {
    int64_t step = walk.strides[1].back();
    for (int64_t i = 0; i < length; ++i)
      result.data[at[0] + i] = x.data[start + at[1] + i * step];
  });
  return result;
}

MaybeTensor move(Operation *op, Operands operands, unsigned threads) {
  if (isa<nn::BroadcastOp>(op))
    return strided(op, *operands[0], 0,
                   broadcastStrides(operands[0]->shape, resultShape(op).size()),
                   threads);
  if (auto it = dyn_cast<nn::TransposeOp>(op)) {
    Index dense = denseStrides(operands[0]->shape), strides;
    for (int64_t from : it.getPerm())
      strides.push_back(dense[from]);
    return strided(op, *operands[0], 0, std::move(strides), threads);
  }
  if (auto it = dyn_cast<nn::SliceOp>(op)) {
    Index strides = denseStrides(operands[0]->shape);
    int64_t start = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      start += it.getStarts()[d] * strides[d];
      strides[d] *= it.getStrides()[d];
    }
    return strided(op, *operands[0], start, std::move(strides), threads);
  }
  return std::nullopt;
}

template <typename Combine>
Tensor reduceBy(nn::ReduceOp op, const Tensor &x, double first,
                Combine combine) {
  Tensor result(resultShape(op), first);
  Index kept = denseStrides(result.shape), strides;
  size_t next = 0;
  for (size_t d = 0; d < x.shape.size(); ++d)
    strides.push_back(llvm::is_contained(op.getDims(), static_cast<int64_t>(d))
                          ? 0
                          : kept[next++]);
  Walk<2> walk{x.shape, {denseStrides(x.shape), std::move(strides)}};
  // On one thread: several rows may go to one element.
  walk.run(1, [&](std::array<int64_t, 2> at, int64_t length) {
    int64_t from = walk.strides[0].back(), to = walk.strides[1].back();
    for (int64_t i = 0; i < length; ++i) {
      double &value = result.data[at[1] + i * to];
      value = combine(value, x.data[at[0] + i * from]);
    }
  });
  return result;
}

Tensor reduce(nn::ReduceOp op, const Tensor &x) {
  switch (op.getKind()) {
  case nn::ReduceKind::Sum:
    return reduceBy(op, x, 0, [](double a, double b) { return a + b; });
  case nn::ReduceKind::Prod:
    return reduceBy(op, x, 1, [](double a, double b) { return a * b; });
  case nn::ReduceKind::Max:
    return reduceBy(op, x, -INFINITY, [](double a, double b) {
      return std::isnan(a) || a > b ? a : b;
    });
  case nn::ReduceKind::Min:
    return reduceBy(op, x, INFINITY, [](double a, double b) {
      return std::isnan(a) || a < b ? a : b;
    });
  }
  llvm_unreachable("bad ReduceKind");
}

Tensor softmax(Operation *op, uint64_t dim, bool log, const Tensor &x,
               unsigned threads) {
  Tensor result(resultShape(op));
  int64_t size = x.shape[dim], inner = denseStrides(x.shape)[dim];
  if (x.data.empty())
    return result;
  int64_t rows = static_cast<int64_t>(x.data.size()) / size;
  parallelFor(rows, std::max<int64_t>(1, 8192 / size), threads,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  int64_t first = row / inner * inner * size + row % inner;
                  const double *from = &x.data[first];
                  double *to = &result.data[first];
                  double max = -INFINITY, sum = 0;
                  for (int64_t i = 0; i < size; ++i)
                    max = std::max(max, from[i * inner]);
                  for (int64_t i = 0; i < size; ++i)
                    sum += to[i * inner] = std::exp(from[i * inner] - max);
                  for (int64_t i = 0; i < size; ++i)
                    to[i * inner] = log ? from[i * inner] - max - std::log(sum)
                                        : to[i * inner] / sum;
                }
              });
  return result;
}

} // namespace

MaybeTensor kerf::interpret::evaluateUnfused(Operation *op, Operands operands,
                                             unsigned threads) {
  // The interpreter checks divisors of integers.
  ElementFunction function =
      nn::dividesIntegers(op) ? nullptr : findElementFunction(op);
  if (function && operands.size() == 1)
    return map<1>(op, operands, threads,
                  [&](double x) { return function(op, x); });
  if (function && operands.size() == 2)
    return map<2>(op, operands, threads,
                  [&](double x, double y) { return function(op, {x, y}); });
  if (isa<nn::SelectOp>(op))
    return map<3>(op, operands, threads,
                  [](double c, double a, double b) { return c != 0 ? a : b; });
  if (MaybeTensor moved = move(op, operands, threads))
    return moved;
  if (auto it = dyn_cast<nn::ReduceOp>(op))
    return reduce(it, *operands[0]);
  if (auto it = dyn_cast<nn::SoftmaxOp>(op))
    return softmax(op, it.getDim(), false, *operands[0], threads);
  if (auto it = dyn_cast<nn::LogSoftmaxOp>(op))
    return softmax(op, it.getDim(), true, *operands[0], threads);
  return evaluateProduct(op, operands, threads);
}
