//===- Scatter.cpp - operators that write or order by index ---------------===//
//
// ScatterElements, ScatterND and TensorScatter are nn.scatter, which changes
// rows of a tensor; TopK is nn.top_k, the indices, and a gather of the values.
// Both go along one dimension, so that the others can be cut; other axes are
// brought there by transposes.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "AttentionParts.h"
#include "Indexing.h"

#include "kerf/Support/DescribeType.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// The type in which elements are compared and combined: calls that go by
/// indices have f32, f64, i32 and i64.
static Type indexedType(Node &node, Type element) {
  if (isa<FloatType>(element))
    return element.isF64() ? element : node.ops.getF32Type();
  if (element.isSignlessInteger(32))
    return element;
  return node.ops.getI64Type();
}

static std::optional<ScatterKind> reductionOf(Node &node, Type element) {
  std::string name = node.text("reduction", "none");
  auto kind = name == "none" ? ScatterKind::Set : symbolizeScatterKind(name);
  if (!kind || name == "set") {
    (void)node.error("reduction is \"" + name +
                     "\", expected none, add, mul, min or max");
    return std::nullopt;
  }
  if ((*kind == ScatterKind::Min || *kind == ScatterKind::Max) &&
      element.isUnsignedInteger(64)) {
    (void)node.unsupported("reduction " + name + " of uint64",
                           "integers of up to 63 bits are taken");
    return std::nullopt;
  }
  return kind;
}

/// nn.scatter of any type.
static Value scatter(Node &node, ScatterKind kind, Value data, Value indices,
                     Value updates, int64_t dim) {
  if (!data || !indices || !updates)
    return {};
  Type element = elementOf(data), wide = indexedType(node, element);
  Value result = node.make<ScatterOp>(
      {node.cast(data, wide), indices, node.cast(updates, wide)},
      {node.ops.getNamedAttr("kind", ScatterKindAttr::get(node.context, kind)),
       node.i64("dim", dim)});
  return node.cast(result, element);
}

static LogicalResult checkUpdates(Node &node, Value data, Value updates,
                                  ArrayRef<int64_t> shape) {
  if (elementOf(data) != elementOf(updates))
    return node.error("data and updates have different element types");
  if (shapeOf(updates) != shape) {
    return node.error("updates are " + describeType(updates.getType()) +
                      ", expected " + describeType(typeOf(data).clone(shape)));
  }
  return success();
}

/// Data may be larger than indices outside of the axis: from dimension `dim` on
/// the part that has indices is cut out, and the rest put behind it again.
static Value scatterElements(Node &node, ScatterKind kind, Value data,
                             Value indices, Value updates, int64_t axis,
                             int64_t dim) {
  int64_t rank = rankOf(data);
  if (dim == rank) {
    Integers toLast = axisToLast(axis, rank);
    Value rows = scatter(node, kind, node.transpose(data, toLast),
                         node.transpose(indices, toLast),
                         node.transpose(updates, toLast), rank - 1);
    return rows ? node.transpose(rows, lastToAxis(axis, rank)) : rows;
  }
  int64_t size = shapeOf(data)[dim], part = shapeOf(indices)[dim];
  if (dim == axis || part == size)
    return scatterElements(node, kind, data, indices, updates, axis, dim + 1);
  Value changed = scatterElements(node, kind, node.slice(data, dim, 0, part),
                                  indices, updates, axis, dim + 1);
  return changed ? node.concat(
                       {changed, node.slice(data, dim, part, size - part)}, dim)
                 : changed;
}

static LogicalResult scatterElements(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  int64_t axis = 0;
  Value data = node.in(0), updates = node.in(2);
  Value indices = elementIndices(node, axis);
  auto kind =
      node.opset < 16 ? ScatterKind::Set : reductionOf(node, elementOf(data));
  if (!indices || !kind ||
      failed(checkUpdates(node, data, updates, shapeOf(indices))))
    return failure();
  if (typeOf(indices).getNumElements() == 0)
    return node.set(data);
  indices = indicesWithin(node, indices, shapeOf(data)[axis],
                          node.bounds.lengthOf(data, axis));
  if (!indices)
    return node.fail();
  return node.set(
      scatterElements(node, *kind, data, indices, updates, axis, 0));
}

static LogicalResult scatterND(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  Value data = node.in(0), updates = node.in(2);
  Value indices = wideIndices(node, node.in(1));
  auto kind =
      node.opset < 16 ? ScatterKind::Set : reductionOf(node, elementOf(data));
  if (!indices || !kind)
    return failure();
  ArrayRef<int64_t> from = shapeOf(data), to = shapeOf(indices);
  if (to.empty() || to.back() < 1 || to.back() > rankOf(data))
    return node.error("the last dimension of indices must be 1 to " +
                      Twine(rankOf(data)) + ", the rank of data");
  int64_t depth = to.back();
  Integers shape(to.drop_back());
  llvm::append_range(shape, from.drop_front(depth));
  if (failed(checkUpdates(node, data, updates, shape)))
    return failure();
  if (typeOf(updates).getNumElements() == 0)
    return node.set(data);
  SmallVector<Value> lengths;
  for (int64_t d = 0; d < depth; ++d)
    lengths.push_back(node.bounds.lengthOf(data, d));
  Value rows = linearIndices(node, indices, from.take_front(depth), lengths);
  if (!rows)
    return node.fail();
  Integers flat{llvm::product_of(from.take_front(depth))};
  llvm::append_range(flat, from.drop_front(depth));
  Value changed = scatter(node, *kind, node.reshape(node.whole(data), flat),
                          rows, updates, 0);
  changed = node.reshape(changed, Integers(from));
  if (node.bounds.has(data))
    changed = node.whole(changed); // that is not data itself
  for (const Bound &bound : SmallVector<Bound>(node.bounds.of(data)))
    if (changed)
      node.bounds.set(changed, bound.dim, bound.length);
  return node.set(changed);
}

Value kerf::onnx_import::writeAt(Node &node, Value cache, Value updates,
                                 Value first, int64_t axis, bool circular) {
  if (!cache || !updates)
    return {};
  int64_t size = shapeOf(cache)[axis], count = shapeOf(updates)[axis];
  Type i64 = node.ops.getI64Type();
  Value places = node.iota(count, i64);
  if (first) {
    int64_t batch = shapeOf(cache)[0];
    places = node.add(node.reshape(first, {batch, 1}), places);
    if (circular)
      places = node.make<RemOp>({places, node.scalar(double(size), i64)});
    Integers aligned(axis + 1, 1);
    aligned[0] = batch;
    aligned[axis] = count;
    places = node.reshape(places, aligned);
  }
  places = indicesWithin(node, places, size);
  if (!places)
    return {};
  Integers rows(shapeOf(cache).take_front(axis));
  rows.push_back(count);
  return scatter(node, ScatterKind::Set, cache, node.broadcast(places, rows),
                 updates, axis);
}

/// Writes new keys or values into a cache, from a position on that each sample
/// has of its own.
static LogicalResult tensorScatter(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  Value cache = node.in(0), updates = node.in(1);
  auto axis = node.axisWithin(node.integer("axis", -2), rankOf(cache));
  std::string mode = node.text("mode", "linear");
  if (!axis)
    return failure();
  if (mode != "linear" && mode != "circular")
    return node.error("mode is \"" + mode + "\", expected linear or circular");
  if (*axis == 0 || rankOf(updates) != rankOf(cache))
    return node.error("axis must be behind the batch, and update have the rank "
                      "of the cache");
  int64_t size = shapeOf(cache)[*axis], count = shapeOf(updates)[*axis];
  Integers shape(shapeOf(cache));
  shape[*axis] = count;
  if (failed(checkUpdates(node, cache, updates, shape)))
    return failure();
  if (count > size)
    return node.error("update has " + Twine(count) + " positions, the cache " +
                      Twine(size));
  if (typeOf(updates).getNumElements() == 0)
    return node.set(cache);
  Value first;
  if (node.has(2)) {
    if (!(first = wideIndices(node, node.in(2))))
      return failure();
    if (shapeOf(first) != shapeOf(cache).take_front(1))
      return node.error("write_indices must be a vector of " +
                        Twine(shapeOf(cache)[0]) + " elements");
  }
  Value written =
      writeAt(node, cache, updates, first, *axis, mode == "circular");
  if (!written)
    return node.fail();
  return node.set(written);
}

Value kerf::onnx_import::sortKeys(Node &node, Value x) {
  if (!x)
    return {};
  if (elementOf(x).isUnsignedInteger(64)) {
    // With its first bit flipped a number without sign is in the order of
    // those with one.
    Type i64 = node.ops.getI64Type();
    x = node.add(node.cast(x, i64),
                 node.scalar(double(std::numeric_limits<int64_t>::min()), i64));
  }
  return x ? node.cast(x, indexedType(node, elementOf(x))) : x;
}

static LogicalResult topK(Node &node) {
  if (failed(node.opset < 10 ? node.arity(1, 1, 2) : node.arity(2, 2, 2)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", -1), rankOf(x));
  bool largest = node.opset < 11 || node.integer("largest", 1);
  if (node.opset >= 11)
    (void)node.integer("sorted", 1); // any order will do, also the sorted one
  int64_t k = 0;
  Value computed; // as many as are known only when the program runs
  if (node.opset < 10) {
    node.requireAttribute("k");
    k = node.integer("k", 0);
  } else if (auto numbers = node.numbersOf(node.in(1));
             axis && numbers && numbers->size() == 1 &&
             !node.integerElements(numbers->front()) &&
             node.bounds.most(numbers->front())) {
    computed = numbers->front();
    k = std::min(*node.bounds.most(computed), shapeOf(x)[*axis]);
  } else if (auto given = node.constantIntegers(1)) {
    if (given->size() != 1)
      return node.error("k must be one number");
    k = (*given)[0];
  }
  if (!axis || node.failed)
    return failure();
  if (k < 1 || k > shapeOf(x)[*axis])
    return node.error("k is " + Twine(k) + ", expected 1 to " +
                      Twine(shapeOf(x)[*axis]) + ", the size of the axis");
  Value rows = node.transpose(x, axisToLast(*axis, rankOf(x)));
  SmallVector<NamedAttribute, 2> attributes{node.i64("k", k)};
  if (!largest)
    attributes.push_back(node.unit("smallest"));
  Value indices = node.make<TopKOp>({sortKeys(node, rows)}, attributes);
  if (!indices)
    return node.fail();
  if (computed)
    node.bounds.set(
        indices, rankOf(x) - 1,
        node.make<MinOp>(
            {computed, node.scalar(double(k), node.ops.getI64Type())}));
  Integers back = lastToAxis(*axis, rankOf(x));
  Value values = gatherRows(node, rows, indices, rankOf(x) - 1);
  if (!values || failed(node.set(0, node.transpose(values, back))))
    return node.fail();
  return node.wants(1) ? node.set(1, node.transpose(indices, back)) : success();
}

void kerf::onnx_import::addScatter(HandlerTable &table) {
  table.add("Scatter", 9, scatterElements);
  table.add("ScatterElements", 11, scatterElements);
  table.add("ScatterND", 11, scatterND);
  table.add("TensorScatter", 24, tensorScatter);
  table.add("TopK", 1, topK);
}
