//===- Selection.cpp - what is chosen by values ---------------------------===//
//
// The sizes of these results depend on values, so those must be known: they
// follow from constants and shapes (masks and ranges that exporters write), or
// are given with option constant. What is chosen from may be computed.
//
//===----------------------------------------------------------------------===//
#include "../Handlers.h"

#include "kerf/NN/IR/HostTensor.h"

#include <cmath>
#include <numeric>

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
  auto condition = node.constantIntegers(1);
  if (!condition)
    return failure();
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    auto within = node.axisWithin(node.integer("axis", 0), rankOf(x));
    if (!within)
      return failure();
    axis = *within;
  } else {
    x = node.reshape(x, {typeOf(x).getNumElements()});
  }
  if (rankOf(node.in(1)) != 1 || int64_t(condition->size()) > shapeOf(x)[axis])
    return node.error("the condition must be a vector of at most " +
                      Twine(shapeOf(x)[axis]) + " elements");
  Integers places;
  for (auto [index, holds] : llvm::enumerate(*condition))
    if (holds)
      places.push_back(int64_t(index));
  return node.set(node.gather(x, node.integers(places), axis));
}

static LogicalResult nonZero(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
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

namespace {
/// The slices of a constant along a dimension of `count`, with `outer` elements
/// in the dims before it and `inner` behind it. They are compared element by
/// element; NaN is behind every number and equal to itself.
class Slices {
public:
  Slices(DenseElementsAttr elements, int64_t outer, int64_t count,
         int64_t inner)
      : x(decode(elements)), outer(outer), count(count), inner(inner),
        isUnsigned(elements.getElementType().isUnsignedInteger(64)) {}

  /// Below 0, 0 or above, as the first is before, equal to or behind.
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        if (int way = compareAt((o * count + a) * inner + i,
                                (o * count + b) * inner + i))
          return way;
    return 0;
  }

private:
  int compareAt(int64_t a, int64_t b) const {
    if (x.splat)
      return 0;
    if (x.isFloat()) {
      double l = x.floats[a], r = x.floats[b];
      if (std::isnan(l) || std::isnan(r))
        return int(std::isnan(l)) - int(std::isnan(r));
      return int(l > r) - int(l < r);
    }
    int64_t l = x.integers[a], r = x.integers[b];
    if (isUnsigned)
      return int(uint64_t(l) > uint64_t(r)) - int(uint64_t(l) < uint64_t(r));
    return int(l > r) - int(l < r);
  }

  HostTensor x;
  int64_t outer, count, inner;
  bool isUnsigned;
};
} // namespace

static LogicalResult unique(Node &node) {
  if (failed(node.arity(1, 1, 4)))
    return failure();
  bool sorted = node.integer("sorted", 1);
  DenseElementsAttr elements = node.constantElements(0);
  if (!elements)
    return failure();
  Value x = node.in(0);
  int64_t axis = 0, outer = 1, inner = 1;
  if (node.hasAttribute("axis")) {
    auto within = node.axisWithin(node.integer("axis", 0), rankOf(x));
    if (!within)
      return failure();
    axis = *within;
    for (int64_t d = 0; d < rankOf(x); ++d)
      (d < axis ? outer : inner) *= d == axis ? 1 : shapeOf(x)[d];
  } else {
    x = node.reshape(x, {typeOf(x).getNumElements()});
  }
  int64_t count = shapeOf(x)[axis];
  Slices slices(elements, outer, count, inner);
  Integers order(count);
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](int64_t a, int64_t b) {
    int way = slices.compare(a, b);
    return way ? way < 0 : a < b;
  });
  /// Of each different slice its first index, in order of their values.
  Integers firsts;
  Integers classOf(count);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0)
      firsts.push_back(order[i]);
    classOf[order[i]] = int64_t(firsts.size()) - 1;
  }
  Integers place(firsts.size()); // of a class in the result
  std::iota(place.begin(), place.end(), 0);
  if (!sorted) {
    Integers byFirst(place);
    llvm::sort(byFirst,
               [&](int64_t a, int64_t b) { return firsts[a] < firsts[b]; });
    for (auto [at, which] : llvm::enumerate(byFirst))
      place[which] = int64_t(at);
  }
  Integers indices(firsts.size()), inverse, counts(firsts.size(), 0);
  for (auto [which, first] : llvm::enumerate(firsts))
    indices[place[which]] = first;
  for (int64_t which : classOf) {
    inverse.push_back(place[which]);
    ++counts[place[which]];
  }
  ArrayRef<int64_t> further[] = {indices, inverse, counts};
  for (size_t index = 1; index < node.outputs.size(); ++index)
    if (node.wants(index) &&
        failed(node.set(index, node.integers(further[index - 1]))))
      return failure();
  return node.set(node.gather(x, node.integers(indices), axis));
}

void kerf::onnx_import::addSelection(HandlerTable &table) {
  table.add("Compress", 9, compress);
  table.add("NonZero", 9, nonZero);
  table.add("Unique", 11, unique);
}
