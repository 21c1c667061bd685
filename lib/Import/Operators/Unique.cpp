//===- Unique.cpp - the different slices of a tensor ----------------------===//
//
// Of constants they are found here. Computed ones are sorted by the program:
// by the last element of each slice first, so that the order of the first one
// decides at the end. Where a slice differs from the one before it a class
// begins, and the place of a class is how many began before it. Results are
// bounded (Bounds.h).
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Indexing.h"

#include "kerf/NN/IR/HostTensor.h"

#include <cmath>
#include <numeric>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

//===----------------------------------------------------------------------===//
// Computed
//===----------------------------------------------------------------------===//

/// For each place of a vector of bools how many hold up to there.
static Value runningCount(Node &node, Value mask) {
  Type i64 = node.ops.getI64Type();
  Value count = node.cast(node.whole(node.filled(mask, 0)), i64);
  if (!count)
    return {};
  int64_t size = shapeOf(count)[0];
  for (int64_t step = 1; step < size && count; step *= 2) {
    Value before = node.make<PadOp>(
        {node.slice(count, 0, 0, size - step)},
        {node.i64s("low", {step}), node.i64s("high", {0}),
         node.ops.getNamedAttr("value", node.ops.getI64IntegerAttr(0))});
    count = node.add(count, before);
  }
  return count;
}

static Value written(Node &node, ScatterKind kind, int64_t size, Value places,
                     Value updates) {
  if (!places || !updates)
    return {};
  return node.make<ScatterOp>(
      {node.splat({size}, 0, node.ops.getI64Type()), places, updates},
      {node.ops.getNamedAttr("kind", ScatterKindAttr::get(node.context, kind)),
       node.i64("dim", 0)});
}

namespace {
/// The classes of the rows of [count, width], with which `length` there are.
struct Classes {
  /// The first row of each class, in order of values.
  Value firsts;
  Value ofRows;  ///< the class of each row
  Value members; ///< how many rows each has
  Value number;  ///< of classes
};
} // namespace

static std::optional<Classes> classesOf(Node &node, Value rows) {
  int64_t count = shapeOf(rows)[0], width = shapeOf(rows)[1];
  Type i64 = node.ops.getI64Type();
  Value length = node.bounds.lengthOf(rows, 0);
  Value order = node.iota(count, i64), place = order;
  for (int64_t column = width; column-- > 0;) {
    Value keys = node.reshape(node.slice(rows, 1, column, 1), {count});
    if (column + 1 != width)
      keys = node.gather(keys, order, 0);
    Value next = node.make<TopKOp>(
        {sortKeys(node, keys)}, {node.i64("k", count), node.unit("smallest")});
    order = column + 1 == width ? next : node.gather(order, next, 0);
    if (!order)
      return std::nullopt;
    if (length)
      node.bounds.set(order, 0, length);
  }
  Value sorted = node.gather(rows, order, 0);
  Value previous = node.make<MaxOp>({node.add(place, -1), node.scalar(0, i64)});
  Value before = node.gather(sorted, previous, 0);
  Value equal = node.make<EqualOp>({sorted, before});
  if (equal && isa<FloatType>(elementOf(sorted))) // NaN is equal to itself
    equal = node.make<OrOp>(
        {equal, node.make<AndOp>({node.make<IsNaNOp>({sorted}),
                                  node.make<IsNaNOp>({before})})});
  Value same = node.reduce(node.cast(equal, node.ops.getI32Type()),
                           ReduceKind::Min, {1}, false);
  Value begins = node.make<OrOp>(
      {node.make<EqualOp>({same, node.scalar(0, node.ops.getI32Type())}),
       node.make<EqualOp>({place, node.scalar(0, i64)})});
  if (!begins)
    return std::nullopt;
  Value starts = placesOf(node, begins, count);
  Value running = runningCount(node, begins);
  Value ofSorted = running ? node.add(running, -1) : Value();
  Classes classes;
  classes.number = starts ? node.bounds.lengthOf(starts, 0) : Value();
  classes.firsts = starts ? node.gather(order, starts, 0) : Value();
  classes.ofRows = written(node, ScatterKind::Set, count, order, ofSorted);
  Value ones = node.splat({count}, 1, i64);
  if (!starts || !ofSorted)
    return std::nullopt;
  int64_t most = shapeOf(starts)[0];
  Value counted = ofSorted; // rows that are not there count nothing
  if (length)
    ones =
        node.select(node.within(order, 0, length), ones, node.scalar(0, i64));
  classes.members = written(node, ScatterKind::Add, most, counted, ones);
  if (!classes.firsts || !classes.ofRows || !classes.members)
    return std::nullopt;
  node.bounds.set(classes.members, 0, classes.number);
  if (length)
    node.bounds.set(classes.ofRows, 0, length);
  return classes;
}

/// Reorders classes, which are sorted, by their first occurrence.
static LogicalResult inOrderOfOccurrence(Node &node, Classes &classes,
                                         int64_t count) {
  Type i64 = node.ops.getI64Type();
  int64_t most = shapeOf(classes.firsts)[0];
  Value marks = written(node, ScatterKind::Set, count, classes.firsts,
                        node.splat({most}, 1, i64));
  Value isFirst =
      marks ? node.make<EqualOp>({marks, node.scalar(1, i64)}) : Value();
  Value firsts = isFirst ? placesOf(node, isFirst, count) : Value();
  Value running = firsts ? runningCount(node, isFirst) : Value();
  Value places =
      running ? node.gather(node.add(running, -1), classes.firsts, 0) : Value();
  if (!places)
    return failure();
  Value members = written(node, ScatterKind::Set, most, places,
                          node.whole(classes.members));
  Value length = node.bounds.lengthOf(classes.ofRows, 0);
  Value ofRows = node.gather(node.whole(places), classes.ofRows, 0);
  if (!members || !ofRows)
    return failure();
  firsts = node.whole(firsts);
  node.bounds.set(firsts, 0, classes.number);
  node.bounds.set(members, 0, classes.number);
  if (length)
    node.bounds.set(ofRows, 0, length);
  classes.firsts = firsts;
  classes.members = members;
  classes.ofRows = ofRows;
  return success();
}

static LogicalResult uniqueComputed(Node &node, bool sorted) {
  Value x = node.in(0);
  std::optional<int64_t> within = axisOrFlat(node, x);
  if (!within)
    return failure();
  int64_t axis = *within;
  int64_t count = shapeOf(x)[axis];
  if (typeOf(x).getNumElements() == 0)
    return node.unsupported("operator Unique of no elements");
  int64_t width = typeOf(x).getNumElements() / count;
  constexpr int64_t kWidest = 64;
  if (width > kWidest)
    return node.unsupported("operator Unique of computed slices of more than " +
                                Twine(kWidest) + " elements",
                            "each element of a slice is a pass of sorting");
  Integers toFront{axis};
  for (int64_t d = 0; d < rankOf(x); ++d)
    if (d != axis)
      toFront.push_back(d);
  Value rows = node.reshape(node.transpose(x, toFront), {count, width});
  auto classes = rows ? classesOf(node, rows) : std::nullopt;
  if (!classes ||
      (!sorted && failed(inOrderOfOccurrence(node, *classes, count))))
    return node.fail();
  Value further[] = {classes->firsts, classes->ofRows, classes->members};
  for (size_t index = 1; index < node.outputs.size(); ++index)
    if (node.wants(index) && failed(node.set(index, further[index - 1])))
      return failure();
  return node.set(node.gather(x, classes->firsts, axis));
}

//===----------------------------------------------------------------------===//
// Constant
//===----------------------------------------------------------------------===//

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
  if (!node.elements(node.in(0)))
    return uniqueComputed(node, sorted);
  DenseElementsAttr elements = node.constantElements(0);
  if (!elements)
    return failure();
  Value x = node.in(0);
  std::optional<int64_t> within = axisOrFlat(node, x);
  if (!within)
    return failure();
  int64_t axis = *within, outer = 1, inner = 1;
  for (int64_t d = 0; d < rankOf(x); ++d)
    (d < axis ? outer : inner) *= d == axis ? 1 : shapeOf(x)[d];
  int64_t count = shapeOf(x)[axis];
  Slices slices(elements, outer, count, inner);
  Integers order(count);
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](int64_t a, int64_t b) {
    int way = slices.compare(a, b);
    return way ? way < 0 : a < b;
  });
  /// The first index of each different slice, in order of their values.
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

void kerf::onnx_import::addUnique(HandlerTable &table) {
  table.add("Unique", 11, unique);
}
