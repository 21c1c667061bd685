//===- Strides.cpp - tensors as strided views of dense ones ---------------===//
//
// See Strides.h.
//
//===----------------------------------------------------------------------===//
#include "Strides.h"

#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

Dims kerf::denseStrides(ArrayRef<int64_t> shape) {
  Dims strides(shape.size());
  int64_t stride = 1;
  for (int64_t d = shape.size() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

namespace {
struct StrideFactor {
  int64_t size, stride;
};
/// The factors of each dimension, major to minor; those of size 1 are left out.
using StrideFactors = SmallVector<SmallVector<StrideFactor, 2>, 4>;
} // namespace

static StrideFactors toFactors(ArrayRef<int64_t> sizes,
                               ArrayRef<int64_t> strides) {
  StrideFactors factors;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    factors.emplace_back();
    if (size != 1)
      factors.back().push_back({size, stride});
  }
  return factors;
}

/// Splits the same elements into dimensions of sizes `to`; false if a factor
/// would have to be cut into parts of unequal size.
static bool reshapeFactors(StrideFactors &factors, ArrayRef<int64_t> to) {
  if (llvm::is_contained(to, 0))
    return false;
  SmallVector<StrideFactor> flat;
  for (auto &dim : factors)
    for (StrideFactor factor : dim) {
      if (factor.size == 0)
        return false;
      flat.push_back(factor);
    }
  // From the minor end, each dimension takes factors until it is full.
  StrideFactors result(to.size());
  for (int64_t d = static_cast<int64_t>(to.size()) - 1; d >= 0; --d) {
    int64_t left = to[d];
    while (left != 1) {
      if (flat.empty())
        return false;
      StrideFactor &minor = flat.back();
      if (minor.size <= left) {
        if (left % minor.size != 0)
          return false;
        left /= minor.size;
        result[d].insert(result[d].begin(), minor);
        flat.pop_back();
        continue;
      }
      if (minor.size % left != 0)
        return false;
      result[d].insert(result[d].begin(), {left, minor.stride});
      minor = {minor.size / left, minor.stride * left};
      left = 1;
    }
  }
  factors = std::move(result);
  return true;
}

/// One stride per dimension; none if a dimension needs several.
static std::optional<Dims> toStrides(const StrideFactors &factors,
                                     ArrayRef<int64_t> sizes) {
  Dims strides(factors.size(), 0);
  for (size_t d = 0; d < factors.size(); ++d) {
    ArrayRef<StrideFactor> dim = factors[d];
    for (size_t i = 1; i < dim.size(); ++i)
      if (dim[i - 1].stride != dim[i].stride * dim[i].size)
        return std::nullopt;
    if (!dim.empty())
      strides[d] = dim.back().stride;
  }
  // Dimensions of size 1 get the strides of a dense tensor.
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d)
    if (sizes[d] == 1)
      strides[d] = d + 1 < static_cast<int64_t>(sizes.size())
                       ? strides[d + 1] * sizes[d + 1]
                       : 1;
  return strides;
}

bool kerf::isShapeOp(Operation *op) {
  return op &&
         isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::SliceOp>(op);
}

/// The view of `op`'s result, given that of its operand; false if it has none.
static bool applyShapeOp(Operation *op, int64_t &offset,
                         StrideFactors &factors) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  auto to = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    StrideFactors moved;
    for (int64_t d : transpose.getPerm())
      moved.push_back(factors[d]);
    factors = std::move(moved);
    return true;
  }
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    for (int64_t d = 0, e = to.size(); d < e; ++d) {
      int64_t start = slice.getStarts()[d], step = slice.getStrides()[d];
      if (to[d] == from[d] && start == 0 && step == 1)
        continue;
      if (factors[d].size() > 1 || to[d] == 0 || (step < 0 && to[d] > 1))
        return false;
      int64_t stride = factors[d].empty() ? 0 : factors[d][0].stride;
      offset += start * stride;
      factors[d].clear();
      if (to[d] != 1)
        factors[d].push_back({to[d], stride * step});
    }
    return true;
  }
  if (isa<nn::BroadcastOp>(op)) {
    StrideFactors spread(to.size());
    size_t missing = to.size() - from.size();
    for (size_t d = 0; d < to.size(); ++d) {
      if (d >= missing && from[d - missing] == to[d])
        spread[d] = factors[d - missing];
      else if (to[d] != 1)
        spread[d].push_back({to[d], 0});
    }
    factors = std::move(spread);
    return true;
  }
  return reshapeFactors(factors, to);
}

StridedView kerf::composeView(Value value) {
  SmallVector<Operation *> chain;
  Value base = value;
  while (isShapeOp(base.getDefiningOp())) {
    chain.push_back(base.getDefiningOp());
    base = base.getDefiningOp()->getOperand(0);
  }
  StridedView view;
  ArrayRef<int64_t> sizes = cast<RankedTensorType>(value.getType()).getShape();
  view.sizes.assign(sizes.begin(), sizes.end());
  while (true) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(base.getType()).getShape();
    StrideFactors factors = toFactors(shape, denseStrides(shape));
    view.base = base;
    view.offset = 0;
    if (llvm::all_of(llvm::reverse(chain), [&](Operation *op) {
          return applyShapeOp(op, view.offset, factors);
        }))
      if (auto strides = toStrides(factors, sizes)) {
        view.strides = std::move(*strides);
        return view;
      }
    base = chain.pop_back_val()->getResult(0);
  }
}

StridedView kerf::broadcastView(StridedView view, ArrayRef<int64_t> shape) {
  size_t missing = shape.size() - view.sizes.size();
  Dims strides(shape.size(), 0);
  for (size_t d = missing; d < shape.size(); ++d)
    strides[d] = view.sizes[d - missing] == 1 && shape[d] != 1
                     ? 0
                     : view.strides[d - missing];
  view.sizes.assign(shape.begin(), shape.end());
  view.strides = std::move(strides);
  return view;
}

std::optional<Dims> kerf::pullBack(ArrayRef<Operation *> chain,
                                   ArrayRef<int64_t> strides) {
  if (chain.empty())
    return Dims(strides);
  auto sizesOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  StrideFactors factors =
      toFactors(sizesOf(chain.back()->getResult(0)), strides);
  for (Operation *op : llvm::reverse(chain)) {
    if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
      StrideFactors before(factors.size());
      for (auto [d, source] : llvm::enumerate(transpose.getPerm()))
        before[source] = factors[d];
      factors = std::move(before);
    } else if (!isa<nn::ReshapeOp>(op) ||
               !reshapeFactors(factors, sizesOf(op->getOperand(0)))) {
      return std::nullopt;
    }
  }
  return toStrides(factors, sizesOf(chain.front()->getOperand(0)));
}
