//===- Indexing.cpp - operators that select by index ----------------------===//
//
// nn.gather selects along one dimension, and with rows of indices for rows of
// data. GatherND computes linear indices into the dimensions that it selects
// from; on constants all of it folds.
//
//===----------------------------------------------------------------------===//
#include "Indexing.h"

#include "../Graph/Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

Value kerf::onnx_import::wideIndices(Node &node, Value indices) {
  if (!isa<IntegerType>(elementOf(indices)) ||
      elementOf(indices).isInteger(1)) {
    (void)node.error("indices are not integers");
    return {};
  }
  return node.cast(indices, node.ops.getI64Type());
}

/// Counts negative indices from the end of `size`.
static Value fromEnd(Node &node, Value indices, int64_t size) {
  if (!indices)
    return {};
  Value zero = node.scalar(0, elementOf(indices));
  return node.select(node.make<LessOp>({indices, zero}),
                     node.add(indices, double(size)), indices);
}

/// Reports constant indices that are outside.
static LogicalResult checkIndices(Node &node, Value indices, int64_t size) {
  if (auto given = node.integerElements(indices))
    for (int64_t index : *given)
      if (index < -size || index >= size)
        return node.outside("index " + Twine(index) + " is outside size " +
                            Twine(size));
  return success();
}

Value kerf::onnx_import::indicesWithin(Node &node, Value indices, int64_t size,
                                       Value length) {
  if (!indices || failed(checkIndices(node, indices, size)))
    return {};
  if (length) {
    Value isNegative =
        node.make<LessOp>({indices, node.scalar(0, elementOf(indices))});
    indices = node.select(isNegative, node.add(indices, length), indices);
    if (!indices)
      return {};
  }
  if (node.elements(indices))
    return fromEnd(node, node.asConstant(indices), size);
  // A gather of 0, 1, 2, ... is what fails at run time.
  auto numbers = RankedTensorType::get({size}, node.ops.getI64Type());
  Value rows = IotaOp::create(node.ops, node.loc, numbers, 0);
  return node.gather(rows, indices, 0);
}

Value kerf::onnx_import::linearIndices(Node &node, Value indices,
                                       ArrayRef<int64_t> sizes,
                                       ArrayRef<Value> lengths) {
  int64_t last = rankOf(indices) - 1;
  Integers shape(shapeOf(indices).drop_back());
  Value linear;
  for (auto [j, size] : llvm::enumerate(sizes)) {
    Value index = node.reshape(node.slice(indices, last, int64_t(j), 1), shape);
    index = indicesWithin(node, index, size,
                          lengths.empty() ? Value() : lengths[j]);
    if (!index)
      return {};
    index = node.mul(index, double(llvm::product_of(sizes.drop_front(j + 1))));
    linear = linear ? node.add(linear, index) : index;
  }
  return linear;
}

Integers kerf::onnx_import::axisToLast(int64_t axis, int64_t rank) {
  Integers perm;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != axis)
      perm.push_back(dim);
  perm.push_back(axis);
  return perm;
}

Integers kerf::onnx_import::lastToAxis(int64_t axis, int64_t rank) {
  Integers perm;
  for (int64_t dim = 0; dim + 1 < rank; ++dim)
    perm.push_back(dim);
  perm.insert(perm.begin() + axis, rank - 1);
  return perm;
}

Value kerf::onnx_import::gatherRows(Node &node, Value data, Value indices,
                                    int64_t dim) {
  if (dim == 0)
    return node.gather(data, indices, 0);
  return node.make<GatherOp>({data, indices},
                             {node.i64("dim", dim), node.unit("batched")});
}

static LogicalResult gather(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value data = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", 0), rankOf(data));
  if (!axis)
    return failure();
  if (!isa<IntegerType>(elementOf(node.in(1))))
    return node.error("indices are not integers");
  if (failed(checkIndices(node, node.in(1), shapeOf(data)[*axis])))
    return failure();
  return node.set(node.gather(data, node.asConstant(node.in(1)), *axis));
}

Value kerf::onnx_import::elementIndices(Node &node, int64_t &axis) {
  auto given = node.axisWithin(node.integer("axis", 0), rankOf(node.in(0)));
  Value indices = given ? wideIndices(node, node.in(1)) : Value();
  if (!indices)
    return {};
  axis = *given;
  ArrayRef<int64_t> from = shapeOf(node.in(0)), to = shapeOf(indices);
  if (from.size() != to.size()) {
    (void)node.error("indices have rank " + Twine(to.size()) + ", expected " +
                     Twine(from.size()));
    return {};
  }
  for (size_t dim = 0; dim < to.size(); ++dim)
    if (int64_t(dim) != axis && to[dim] > from[dim]) {
      (void)node.error("indices are larger than data in dimension " +
                       Twine(dim));
      return {};
    }
  return indices;
}

static LogicalResult gatherElements(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  int64_t axis = 0;
  Value data = node.in(0), indices = elementIndices(node, axis);
  if (!indices || failed(checkIndices(node, indices, shapeOf(data)[axis])))
    return failure();
  // Rows along the axis, of the part of the data that has indices.
  Integers toLast = axisToLast(axis, rankOf(data));
  for (int64_t dim = 0; dim < rankOf(data); ++dim)
    if (dim != axis)
      data = node.slice(data, dim, 0, shapeOf(indices)[dim]);
  Value rows = gatherRows(node, node.transpose(data, toLast),
                          node.transpose(indices, toLast), rankOf(data) - 1);
  return node.set(rows ? node.transpose(rows, lastToAxis(axis, rankOf(rows)))
                       : rows);
}

static LogicalResult gatherND(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value data = node.in(0);
  Value indices = wideIndices(node, node.in(1));
  int64_t batch = node.opset < 12 ? 0 : node.integer("batch_dims", 0);
  if (!indices)
    return failure();
  ArrayRef<int64_t> from = shapeOf(data), to = shapeOf(indices);
  if (to.empty() || batch < 0 || batch >= int64_t(to.size()) || to.back() < 1 ||
      to.back() + batch > int64_t(from.size()) ||
      from.take_front(batch) != to.take_front(batch))
    return node.error("indices do not fit data and batch_dims " + Twine(batch));
  int64_t depth = to.back();
  SmallVector<Value> lengths;
  for (int64_t d = batch; d < batch + depth; ++d)
    lengths.push_back(node.bounds.lengthOf(data, d));
  Value linear =
      linearIndices(node, indices, from.slice(batch, depth), lengths);
  Integers shape(from.take_front(batch));
  shape.push_back(llvm::product_of(from.slice(batch, depth)));
  llvm::append_range(shape, from.drop_front(batch + depth));
  if (!linear)
    return node.fail();
  if (llvm::all_of(lengths, [](Value length) { return !length; }))
    return node.set(gatherRows(node, node.reshape(data, shape), linear, batch));
  // Indices count elements where they lie.
  for (const Bound &bound : node.bounds.of(data))
    if (bound.dim < batch || bound.dim >= batch + depth)
      return node.unsupported("operator GatherND of a tensor with several "
                              "dimensions whose size is known only when the "
                              "program runs");
  return node.set(
      gatherRows(node, node.reshape(node.whole(data), shape), linear, batch));
}

static LogicalResult oneHot(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  Value indices = node.in(0), values = node.in(2);
  auto depth = node.constantReal(1);
  if (!depth)
    return failure();
  int64_t rank = rankOf(indices) + 1,
          size = integerOf(*depth, 64).getSExtValue();
  auto axis = node.axisWithin(node.integer("axis", -1), rank);
  if (!axis)
    return failure();
  if (size < 1 || size > (int64_t(1) << 32) || rankOf(values) != 1 ||
      shapeOf(values)[0] != 2)
    return node.error("depth is " + Twine(size) + " and values must be a pair");
  Type i64 = node.ops.getI64Type();
  Integers shape(shapeOf(indices)), classes(rank, 1);
  shape.insert(shape.begin() + *axis, 1);
  classes[*axis] = size;
  Value index =
      fromEnd(node, node.reshape(node.cast(indices, i64), shape), size);
  Value hot =
      node.make<EqualOp>({index, node.reshape(node.iota(size, i64), classes)});
  Value off = node.reshape(node.slice(values, 0, 0, 1), {});
  Value on = node.reshape(node.slice(values, 0, 1, 1), {});
  return node.set(node.select(hot, on, off));
}

/// Sums or products of the elements that a triangular mask selects. (A product
/// with ones and zeros would spread NaN and infinities to sums without them.)
template <ReduceKind kind> static LogicalResult cumulative(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0);
  auto given = node.constantIntegers(1);
  if (!given || given->size() != 1)
    return node.failed ? failure() : node.error("axis must be a scalar");
  auto axis = node.axisWithin((*given)[0], rankOf(x));
  bool exclusive = node.integer("exclusive", 0);
  bool reverse = node.integer("reverse", 0);
  if (!axis)
    return failure();
  int64_t size = shapeOf(x)[*axis];
  if (size > (1 << 14))
    return node.unsupported("operator " + node.proto.op_type() +
                            " over more than 2^14 elements");
  Type i64 = node.ops.getI64Type();
  Value row = node.reshape(node.iota(size, i64), {size, 1});
  Value column = node.iota(size, i64);
  Value first = reverse ? column : row, second = reverse ? row : column;
  // Whether element i (row) belongs to result j (column).
  Value counts = exclusive ? node.make<LessOp>({first, second})
                           : node.make<LessEqualOp>({first, second});
  Integers shape(rankOf(x), 1);
  shape.push_back(1);
  shape[*axis] = size;
  shape.back() = size;
  Integers wide(shapeOf(x));
  wide.push_back(1);
  double neutral = kind == ReduceKind::Prod ? 1 : 0;
  Value masked = node.select(node.reshape(counts, shape), node.reshape(x, wide),
                             node.scalar(neutral, elementOf(x)));
  Value result = node.reduce(masked, kind, {*axis}, false);
  if (!result)
    return failure();
  // The new last dimension takes the axis's place.
  result = node.transpose(result, lastToAxis(*axis, rankOf(x)));
  if (Value length = node.bounds.lengthOf(x, *axis); length && result)
    node.bounds.set(result, *axis, length);
  return node.set(result);
}

/// 1 at the first maximum of each row. Before operator set 13 rows are all
/// dimensions from `axis` on.
static LogicalResult hardmax(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  bool rows = node.opset < 13;
  auto axis =
      node.axisWithin(node.integer("axis", rows ? 1 : -1), rankOf(x), rows);
  if (!axis)
    return failure();
  Integers shape(shapeOf(x));
  if (rows) {
    x = node.reshape(x, {llvm::product_of(ArrayRef(shape).take_front(*axis)),
                         llvm::product_of(ArrayRef(shape).drop_front(*axis))});
    axis = 1;
  }
  if (typeOf(x).getNumElements() == 0)
    return node.set(node.in(0));
  Type i64 = node.ops.getI64Type();
  Integers kept(shapeOf(x)), along(rankOf(x), 1);
  kept[*axis] = 1;
  along[*axis] = shapeOf(x)[*axis];
  Value first =
      node.reshape(node.make<ArgReduceOp>({x}, {node.i64("dim", *axis)}), kept);
  Value places = node.reshape(node.iota(along[*axis], i64), along);
  Value result = node.cast(node.make<EqualOp>({first, places}), elementOf(x));
  return node.set(node.reshape(result, shape));
}

/// The first elements of each sequence, as many as the sequence is long, in
/// reverse.
static LogicalResult reverseSequence(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0), lengths = wideIndices(node, node.in(1));
  int64_t batch = node.integer("batch_axis", 1);
  int64_t time = node.integer("time_axis", 0);
  if (!lengths)
    return failure();
  if (rankOf(x) < 2 || batch + time != 1 || (batch != 0 && batch != 1))
    return node.error("batch_axis and time_axis must be 0 and 1");
  int64_t samples = shapeOf(x)[batch], size = shapeOf(x)[time];
  if (shapeOf(lengths) != ArrayRef<int64_t>{samples})
    return node.error("sequence_lens must be a vector of " + Twine(samples) +
                      " elements");
  Value step = node.iota(size, node.ops.getI64Type());
  Value length = node.reshape(lengths, {samples, 1});
  Value turned = node.sub(node.add(length, -1), step);
  Value places = node.select(node.make<LessOp>({step, length}), turned, step);
  Integers perm = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  std::swap(perm[0], perm[batch]);
  Value rows = gatherRows(node, node.transpose(x, perm), places, 1);
  return node.set(rows ? node.transpose(rows, perm) : rows);
}

void kerf::onnx_import::addIndexing(HandlerTable &table) {
  table.add("Gather", 1, gather);
  table.add("GatherElements", 11, gatherElements);
  table.add("GatherND", 11, gatherND);
  table.add("Hardmax", 1, hardmax);
  table.add("OneHot", 9, oneHot);
  table.add("ReverseSequence", 10, reverseSequence);
  table.add("CumSum", 11, cumulative<ReduceKind::Sum>);
  table.add("CumProd", 26, cumulative<ReduceKind::Prod>);
}
