//===- Selection.cpp - what is chosen by values ---------------------------===//
//
// The sizes of these results depend on values. Where those are known (they
// follow from constants and shapes, or are given with option constant) so are
// the sizes; else the results are bounded (Bounds.h): the places come first, in
// order, which the indices of the largest elements of the mask are.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Indexing.h"

#include "kerf/NN/IR/HostTensor.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// The slices of `x` along an axis, or with none its elements, where the
/// condition holds.
static LogicalResult compress(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0);
  std::optional<Integers> condition;
  if (node.elements(node.in(1)) && !(condition = node.constantIntegers(1)))
    return failure();
  std::optional<int64_t> within = axisOrFlat(node, x);
  if (!within)
    return failure();
  int64_t axis = *within;
  int64_t size = shapeOf(x)[axis];
  if (rankOf(node.in(1)) != 1 || shapeOf(node.in(1))[0] > size)
    return node.error("the condition must be a vector of at most " +
                      Twine(size) + " elements");
  if (!condition) {
    if (!elementOf(node.in(1)).isInteger(1))
      return node.error("the condition is not of bools");
    Value places = placesOf(node, node.in(1), size);
    return node.set(places ? node.gather(x, places, axis) : places);
  }
  Integers places;
  for (auto [index, holds] : llvm::enumerate(*condition))
    if (holds)
      places.push_back(int64_t(index));
  return node.set(node.gather(x, node.integers(places), axis));
}

std::optional<int64_t> kerf::onnx_import::axisOrFlat(Node &node, Value &x) {
  if (node.hasAttribute("axis"))
    return node.axisWithin(node.integer("axis", 0), rankOf(x));
  x = node.reshape(x, {typeOf(x).getNumElements()});
  if (x)
    return 0;
  (void)node.fail();
  return std::nullopt;
}

Value kerf::onnx_import::placesOf(Node &node, Value mask, int64_t most) {
  mask = node.whole(node.filled(mask, 0));
  if (!mask)
    return {};
  // A dimension of one element would be broadcast.
  int64_t count = shapeOf(mask)[0], least = 2;
  if (count < least)
    mask = node.concat(
        {mask, node.splat({least - count}, 0, node.ops.getI1Type())}, 0);
  int64_t size = std::max(std::min(count, most), least);
  Type i64 = node.ops.getI64Type();
  Value length = node.reduce(node.cast(mask, i64), ReduceKind::Sum, {0}, false);
  Value places = node.make<TopKOp>({node.cast(mask, node.ops.getI32Type())},
                                   {node.i64("k", size)});
  if (!length || !places)
    return {};
  if (most < count)
    length = node.make<MinOp>({length, node.scalar(double(most), i64)});
  node.bounds.setMost(length, std::min(count, most));
  node.bounds.set(places, 0, length);
  return node.filled(places, 0);
}

static LogicalResult nonZeroComputed(Node &node) {
  Value x = node.in(0), mask = x;
  ArrayRef<int64_t> shape = shapeOf(x);
  if (shape.empty() || typeOf(x).getNumElements() == 0)
    return node.unsupported(
        "operator NonZero of a computed number without dimensions, or of no "
        "elements",
        "tensors are taken");
  if (!elementOf(x).isInteger(1))
    mask = node.make<NotOp>(
        {node.make<EqualOp>({x, node.scalar(0, elementOf(x))})});
  int64_t count = typeOf(x).getNumElements(), stride = count;
  mask = node.whole(node.filled(mask, 0));
  Value places = placesOf(node, node.reshape(mask, {count}), count);
  if (!places)
    return node.fail();
  SmallVector<Value> rows;
  Type i64 = node.ops.getI64Type();
  for (int64_t size : shape) {
    stride /= size;
    Value row = places;
    if (stride != 1)
      row = node.div(row, node.scalar(double(stride), i64));
    if (!rows.empty())
      row = node.make<RemOp>({row, node.scalar(double(size), i64)});
    rows.push_back(node.reshape(row, {1, shapeOf(places)[0]}));
  }
  return node.set(node.concat(rows, 0));
}

static LogicalResult nonZero(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  if (!node.elements(node.in(0)))
    return nonZeroComputed(node);
  DenseElementsAttr given = node.constantElements(0);
  if (!given)
    return failure();
  HostTensor x = decode(given);
  ArrayRef<int64_t> shape = shapeOf(node.in(0));
  SmallVector<Integers> found(shape.size());
  int64_t count = 0;
  for (int64_t i = 0; i < given.getNumElements(); ++i) {
    int64_t at = x.splat ? 0 : i;
    if (x.isFloat() ? x.floats[at] == 0 : x.integers[at] == 0)
      continue;
    ++count;
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      found[d].push_back(rest % shape[d]);
  }
  Integers all;
  for (const Integers &each : found)
    llvm::append_range(all, each);
  return node.set(
      node.reshape(node.integers(all), {int64_t(shape.size()), count}));
}

void kerf::onnx_import::addSelection(HandlerTable &table) {
  table.add("Compress", 9, compress);
  table.add("NonZero", 9, nonZero);
}
