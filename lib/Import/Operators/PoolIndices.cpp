//===- PoolIndices.cpp - where the maxima of windows are ------------------===//
//
// The elements at one place of all windows are a strided slice of the padded
// image. Those slices are compared with the maxima, the last first, so that of
// equal elements the first is kept.
//
//===----------------------------------------------------------------------===//
#include "Images.h"

#include "kerf/Interfaces/Identity.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// The number of each element of an image in one row of them, in the order of
/// these sizes, and -1 where a border is.
static Value numbers(Node &node, ArrayRef<int64_t> sizes,
                     const WindowShape &window, bool columnMajor) {
  Integers strides(sizes.size(), 1), low(window.low), high(window.high);
  for (size_t i = 1; i < sizes.size(); ++i) {
    size_t d = columnMajor ? i : sizes.size() - 1 - i;
    size_t inner = columnMajor ? d - 1 : d + 1;
    strides[d] = strides[inner] * sizes[inner];
  }
  Type i64 = node.ops.getI64Type();
  Value sum = node.splat(sizes, 0, i64);
  for (size_t d = 0; d < sizes.size(); ++d) {
    Integers shape(sizes.size(), 1);
    shape[d] = sizes[d];
    sum = node.add(sum, node.reshape(node.mul(node.iota(sizes[d], i64),
                                              double(strides[d])),
                                     shape));
  }
  return node.make<PadOp>(
      {sum}, {node.i64s("low", low), node.i64s("high", high),
              node.ops.getNamedAttr("value", node.number(-1, i64))});
}

Value kerf::onnx_import::maxPoolIndices(Node &node, Value x, Value maxima,
                                        const WindowShape &window,
                                        bool columnMajor) {
  constexpr int64_t kMost = 1024;
  int64_t taps = llvm::product_of(window.kernel);
  if (taps > kMost)
    return (void)node.unsupported("output Indices of operator MaxPool",
                                  "windows of up to 1024 elements are taken"),
           Value();
  // Borders of a window and more would be images of nothing.
  for (size_t d = 0; d < window.kernel.size(); ++d)
    if (int64_t span = (window.kernel[d] - 1) * window.dilations[d];
        window.low[d] > span || window.declaredHigh[d] > span)
      return (void)node.unsupported("output Indices of operator MaxPool",
                                    "pads less than the window are taken"),
             Value();
  if (!maxima)
    return {};
  Type i64 = node.ops.getI64Type();
  size_t spatial = window.kernel.size();
  Integers sizes(shapeOf(x).drop_front(2)), out(shapeOf(maxima).drop_front(2));
  Value places = numbers(node, sizes, window, columnMajor);
  Integers low{0, 0}, high{0, 0};
  llvm::append_range(low, window.low);
  llvm::append_range(high, window.high);
  Value padded = node.make<PadOp>(
      {x}, {node.i64s("low", low), node.i64s("high", high),
            node.ops.getNamedAttr(
                "value", identityOf(ReductionKind::Max, elementOf(x)))});
  // The elements at a place of every window.
  auto taken = [&](Value value, ArrayRef<int64_t> tap, size_t first) {
    for (size_t d = 0; d < spatial; ++d)
      value =
          node.slice(value, int64_t(first + d), tap[d] * window.dilations[d],
                     out[d], window.strides[d]);
    return value;
  };
  Value found = node.splat(shapeOf(maxima), 0, i64);
  for (int64_t number = taps - 1; number >= 0; --number) {
    Integers tap(spatial);
    int64_t rest = number;
    for (size_t d = spatial; d-- > 0; rest /= window.kernel[d])
      tap[d] = rest % window.kernel[d];
    Value at = taken(places, tap, 0);
    Value element = taken(padded, tap, 2);
    Value isThis = node.make<EqualOp>({element, maxima});
    // What is no number is the largest.
    if (isa<FloatType>(elementOf(x)))
      isThis = node.make<OrOp>({isThis, node.make<IsNaNOp>({element})});
    Value isInside = node.make<LessEqualOp>({node.scalar(0, i64), at});
    found = node.select(node.make<AndOp>({isThis, isInside}), at, found);
  }
  // Images follow each other.
  int64_t batch = shapeOf(x)[0], channels = shapeOf(x)[1];
  Integers shape(spatial + 2, 1);
  shape[0] = batch;
  shape[1] = channels;
  Value image = node.reshape(node.iota(batch * channels, i64), shape);
  return node.add(found, node.mul(image, double(llvm::product_of(sizes))));
}
