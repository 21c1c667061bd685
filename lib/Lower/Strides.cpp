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

std::optional<Dims> kerf::reshapeStrides(ArrayRef<int64_t> from,
                                         ArrayRef<int64_t> strides,
                                         ArrayRef<int64_t> to) {
  // Merge the dimensions of `from` into runs that one stride describes, then
  // cut each run into dimensions of `to`.
  struct Run {
    int64_t size, stride;
  };
  SmallVector<Run> runs;
  for (auto [size, stride] : llvm::zip(from, strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().stride == size * stride &&
        (runs.back().stride != 0 || stride == 0))
      runs.back() = {runs.back().size * size, stride};
    else
      runs.push_back({size, stride});
  }
  if (llvm::is_contained(to, 0))
    return std::nullopt;
  Dims result(to.size(), 0);
  size_t run = 0;
  int64_t left = runs.empty() ? 1 : runs[0].size;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 1)
      continue;
    if (left == 1) {
      if (++run >= runs.size())
        return std::nullopt;
      left = runs[run].size;
    }
    if (left % to[d] != 0)
      return std::nullopt;
    left /= to[d];
    result[d] = runs[run].stride * left;
  }
  // Dimensions of size 1 get a stride as if they were dense.
  for (int64_t d = static_cast<int64_t>(to.size()) - 2; d >= 0; --d)
    if (to[d] == 1)
      result[d] = result[d + 1] * to[d + 1];
  return result;
}

bool kerf::isShapeOp(Operation *op) {
  return op &&
         isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::SliceOp>(op);
}

/// The view of `op`'s result, given that of its operand; false if it has none.
static bool applyShapeOp(Operation *op, StridedView &view) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    Dims strides;
    for (int64_t d : transpose.getPerm())
      strides.push_back(view.strides[d]);
    view.strides = std::move(strides);
  } else if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    for (int64_t d = 0, e = shape.size(); d < e; ++d) {
      view.offset += slice.getStarts()[d] * view.strides[d];
      view.strides[d] *= slice.getStrides()[d];
      if (view.strides[d] < 0 && shape[d] > 1)
        return false;
    }
  } else if (isa<nn::BroadcastOp>(op)) {
    view = broadcastView(std::move(view), shape);
  } else {
    auto strides = reshapeStrides(view.sizes, view.strides, shape);
    if (!strides)
      return false;
    view.strides = std::move(*strides);
  }
  view.sizes.assign(shape.begin(), shape.end());
  return true;
}

StridedView kerf::composeView(Value value) {
  SmallVector<Operation *> chain;
  Value base = value;
  while (isShapeOp(base.getDefiningOp())) {
    chain.push_back(base.getDefiningOp());
    base = base.getDefiningOp()->getOperand(0);
  }
  while (true) {
    StridedView view;
    view.base = base;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(base.getType()).getShape();
    view.sizes.assign(shape.begin(), shape.end());
    view.strides = denseStrides(shape);
    if (llvm::all_of(llvm::reverse(chain),
                     [&](Operation *op) { return applyShapeOp(op, view); }))
      return view;
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
  Dims current(strides);
  for (Operation *op : llvm::reverse(chain)) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
    auto to = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
    if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
      Dims before(current.size());
      for (auto [d, source] : llvm::enumerate(transpose.getPerm()))
        before[source] = current[d];
      current = std::move(before);
    } else if (isa<nn::ReshapeOp>(op)) {
      auto before = reshapeStrides(to, current, from);
      if (!before)
        return std::nullopt;
      current = std::move(*before);
    } else {
      return std::nullopt;
    }
  }
  return current;
}
