//===- PullWindows.h - pools, lrn, matmul, convolution ----------*- C++ -*-===//
//
// An element is a reduction over a window, in scalar loops, with an accumulator
// per lane: lanes run over channels or columns, which are contiguous. The
// contractions serve types and shapes that the library does not know.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLWINDOWS_H
#define KERF_LOWER_CODEGEN_PULLWINDOWS_H

#include "PullEmitter.h"

#include "kerf/NN/NN.h"

namespace kerf::codegen {

/// Nested loops; `window` gets an index per dimension.
template <typename B>
auto PullEmitter<B>::forWindow(llvm::ArrayRef<int64_t> sizes, IndexVec &window,
                               Body body) -> void {
  size_t at = window.size();
  if (at == sizes.size())
    return body();
  if (sizes[at] == 1) {
    window.push_back(Index(0));
    forWindow(sizes, window, body);
    window.pop_back();
    return;
  }
  AtomId atom = space.addLoop(sizes[at]);
  forStatic(sizes[at], 1, indexConstant(0), [&](V value) {
    atomValues[atom] = value;
    window.push_back(space.get(atom));
    pushScope();
    forWindow(sizes, window, body);
    popScope();
    window.pop_back();
  });
}

/// Whether a window lies wholly in the padding: a dilated one may step over a
/// small image.
inline bool hasEmptyWindow(nn::AvgPoolOp op) {
  if (op.getCountIncludePad())
    return false;
  llvm::ArrayRef<int64_t> from = shapeOf(op.getX()),
                          to = shapeOf(op.getResult());
  for (auto [d, taps] : llvm::enumerate(op.getKernel()))
    for (int64_t i = 0; i < to[d + 1]; ++i) {
      int64_t first = i * op.getStrides()[d] - op.getLow()[d];
      bool sees = false;
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t at = first + tap * op.getDilations()[d];
        sees |= at >= 0 && at < from[d + 1];
      }
      if (!sees)
        return true;
    }
  return false;
}

template <typename B>
auto PullEmitter<B>::pullPool(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  auto max = mlir::dyn_cast<nn::MaxPoolOp>(op);
  auto avg = mlir::dyn_cast<nn::AvgPoolOp>(op);
  mlir::Value x = op->getOperand(0);
  mlir::Type element = elementOf(x);
  T type = computeType(element);
  bool isFloat = b.isFloat(type);
  bool isUnsigned = element.isUnsignedInteger();
  auto attribute = [&](auto forMax, auto forAvg) -> llvm::ArrayRef<int64_t> {
    return max ? forMax() : forAvg();
  };
  llvm::ArrayRef<int64_t> kernel = attribute([&] { return max.getKernel(); },
                                             [&] { return avg.getKernel(); });
  llvm::ArrayRef<int64_t> strides = attribute([&] { return max.getStrides(); },
                                              [&] { return avg.getStrides(); });
  llvm::ArrayRef<int64_t> low =
      attribute([&] { return max.getLow(); }, [&] { return avg.getLow(); });
  llvm::ArrayRef<int64_t> high =
      attribute([&] { return max.getHigh(); }, [&] { return avg.getHigh(); });
  llvm::ArrayRef<int64_t> dilations = attribute(
      [&] { return max.getDilations(); }, [&] { return avg.getDilations(); });
  bool countPadding = avg && avg.getCountIncludePad();
  if (countPadding && avg.getCountHigh())
    high = *avg.getCountHigh();

  V identity = b.zero(type);
  if (max && isFloat)
    identity = b.infinity(type, true);
  else if (max)
    identity = extreme(type, false, isUnsigned);
  V sumSlot = entryAlloca(vectorOf(type, lanes));
  V countSlot = entryAlloca(vectorOf(type, lanes));
  V zero = widen(b.zero(type));
  V one = widen(isFloat ? b.real(type, 1.0) : b.integer(type, 1));
  b.CreateStore(widen(identity), sumSlot);
  b.CreateStore(zero, countSlot);
  IndexVec window;
  forWindow(kernel, window, [&] {
    OperandUse use{0, IndexVec(index), {}};
    llvm::SmallVector<Guard> counted;
    llvm::ArrayRef<int64_t> shape = shapeOf(x);
    for (size_t d = 0; d < kernel.size(); ++d) {
      Index at = space.add(space.scale(index[d + 1], strides[d]),
                           space.scale(window[d], dilations[d]));
      at = space.add(at, Index(-low[d]));
      use.index[d + 1] = at;
      use.guards.push_back({at, 0, shape[d + 1]});
      counted.push_back(countPadding
                            ? Guard{at, -low[d], shape[d + 1] + high[d]}
                            : use.guards.back());
    }
    V value = widen(pullGuarded(x, use, [&] { return identity; }));
    V sum = b.CreateLoad(b.typeOf(value), sumSlot);
    if (max && isFloat)
      sum = math.maximum(sum, value);
    else if (max)
      sum = b.CreateBinaryIntrinsic(isUnsigned ? llvm::Intrinsic::umax
                                               : llvm::Intrinsic::smax,
                                    sum, value);
    else
      sum = isFloat ? b.CreateFAdd(sum, value) : b.CreateAdd(sum, value);
    b.CreateStore(sum, sumSlot);
    if (avg) {
      V inside = widen(guardCondition(counted));
      V count = b.CreateLoad(b.typeOf(value), countSlot);
      V step = b.CreateSelect(inside, one, zero);
      b.CreateStore(isFloat ? b.CreateFAdd(count, step)
                            : b.CreateAdd(count, step),
                    countSlot);
    }
  });
  V sum = b.CreateLoad(b.typeOf(zero), sumSlot);
  if (max)
    return sum;
  V count = b.CreateLoad(b.typeOf(zero), countSlot);
  if (isFloat) {
    if (hasEmptyWindow(avg))
      count = b.CreateSelect(b.CreateFCmpOEQ(count, zero), one, count);
    return b.CreateFDiv(sum, count);
  }
  count = b.CreateSelect(b.CreateICmpEQ(count, zero), one, count);
  return isUnsigned ? b.CreateUDiv(sum, count) : b.CreateSDiv(sum, count);
}

template <typename B>
auto PullEmitter<B>::pullLRN(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  auto lrn = mlir::cast<nn::LRNOp>(op);
  mlir::Value x = lrn.getX();
  V zero = constantOf(elementOf(x), 0.0);
  int64_t size = lrn.getSize();
  V sum = nullptr;
  for (int64_t k = -((size - 1) / 2); k <= size / 2; ++k) {
    OperandUse use{0, IndexVec(index), {}};
    use.index.back() = space.add(index.back(), Index(k));
    use.guards.push_back({use.index.back(), 0, shapeOf(x).back()});
    V value = pullGuarded(x, use, [&] { return zero; });
    V parts[] = {b.CreateFMul(value, value), sum ? sum : zero};
    widenAll(parts);
    sum = b.CreateFAdd(parts[0], parts[1]);
  }
  V base = math.mulAdd(
      sum, math.constant(sum, lrn.getAlpha().convertToDouble() / size),
      math.constant(sum, lrn.getBias().convertToDouble()));
  double beta = lrn.getBeta().convertToDouble();
  V power;
  if (beta == 0.75) {
    V root = math.unary(llvm::Intrinsic::sqrt, base);
    power = b.CreateFMul(root, math.unary(llvm::Intrinsic::sqrt, root));
  } else if (beta == 0.5) {
    power = math.unary(llvm::Intrinsic::sqrt, base);
  } else {
    power = math.pow(base, math.constant(base, beta));
  }
  V parts[] = {pull(x, index), power};
  widenAll(parts);
  return b.CreateFDiv(parts[0], parts[1]);
}

template <typename B>
auto PullEmitter<B>::pullMatmul(mlir::Operation *op,
                                llvm::ArrayRef<Index> index) -> V {
  auto matmul = mlir::cast<nn::MatmulOp>(op);
  T type = computeType(elementOf(op->getResult(0)));
  llvm::ArrayRef<int64_t> lhs = shapeOf(matmul.getLhs());
  llvm::ArrayRef<int64_t> rhs = shapeOf(matmul.getRhs());
  size_t rank = index.size();
  int64_t depth = lhs[lhs.size() - (matmul.getTransposeLhs() ? 2 : 1)];
  V slot = entryAlloca(vectorOf(type, lanes));
  b.CreateStore(b.zero(vectorOf(type, lanes)), slot);
  IndexVec window;
  forWindow({depth}, window, [&] {
    // Batch dimensions are right-aligned and broadcast.
    auto operandIndex = [&](llvm::ArrayRef<int64_t> shape, Index a, Index c,
                            bool swapped) {
      IndexVec result = broadcastIndex(index.drop_back(2), shape.drop_back(2));
      if (swapped)
        std::swap(a, c);
      result.push_back(a);
      result.push_back(c);
      return result;
    };
    V parts[] = {
        pull(matmul.getLhs(), operandIndex(lhs, index[rank - 2], window[0],
                                           matmul.getTransposeLhs())),
        pull(matmul.getRhs(), operandIndex(rhs, window[0], index[rank - 1],
                                           matmul.getTransposeRhs()))};
    for (V &part : parts)
      part = widen(part);
    V sum = b.CreateLoad(b.typeOf(parts[0]), slot);
    sum = b.isFloat(type) ? math.mulAdd(parts[0], parts[1], sum)
                          : b.CreateAdd(sum, b.CreateMul(parts[0], parts[1]));
    b.CreateStore(sum, slot);
  });
  return b.CreateLoad(vectorOf(type, lanes), slot);
}

template <typename B>
auto PullEmitter<B>::pullConv(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  auto conv = mlir::cast<nn::ConvOp>(op);
  mlir::Value x = conv.getX(), weights = conv.getWeights();
  T type = computeType(elementOf(op->getResult(0)));
  llvm::ArrayRef<int64_t> shape = shapeOf(x), filter = shapeOf(weights);
  int64_t channels = filter[1];
  int64_t perGroup = filter[0] / conv.getGroups();
  V slot = entryAlloca(vectorOf(type, lanes));
  b.CreateStore(b.zero(vectorOf(type, lanes)), slot);
  llvm::SmallVector<int64_t> sizes(filter.drop_front(2));
  sizes.push_back(channels);
  Index group = space.divide(index.back(), perGroup).first;
  IndexVec window;
  forWindow(sizes, window, [&] {
    OperandUse use{0, {index[0]}, {}};
    IndexVec weight = {index.back(), window.back()};
    for (size_t d = 0; d + 2 < filter.size(); ++d) {
      Index at = space.add(space.scale(index[d + 1], conv.getStrides()[d]),
                           space.scale(window[d], conv.getDilations()[d]));
      at = space.add(at, Index(-conv.getLow()[d]));
      use.index.push_back(at);
      use.guards.push_back({at, 0, shape[d + 1]});
      weight.push_back(window[d]);
    }
    use.index.push_back(space.add(space.scale(group, channels), window.back()));
    V value = widen(pullGuarded(x, use, [&]() -> V { return b.zero(type); }));
    V factor = widen(pull(weights, weight));
    V sum = b.CreateLoad(b.typeOf(value), slot);
    b.CreateStore(math.mulAdd(value, factor, sum), slot);
  });
  return b.CreateLoad(vectorOf(type, lanes), slot);
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_PULLWINDOWS_H
