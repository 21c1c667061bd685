//===- Indexing.cpp - operators that select by index ----------------------===//
//
// nn.gather selects along one dimension. GatherND and GatherElements compute
// linear indices into the flattened data; on constants all of it folds.
//
//===----------------------------------------------------------------------===//
#include "../Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

static Value wideIndices(Node &node, Value indices) {
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

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
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
  if (auto indices = node.integerElements(node.in(1))) {
    int64_t size = shapeOf(data)[*axis];
    for (int64_t index : *indices)
      if (index < -size || index >= size)
        return node.error("index " + Twine(index) + " is outside size " +
                          Twine(size));
  }
  return node.set(node.gather(data, node.asConstant(node.in(1)), *axis));
}

static LogicalResult gatherElements(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value data = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", 0), rankOf(data));
  if (!axis)
    return failure();
  Value indices = wideIndices(node, node.in(1));
  if (!indices)
    return failure();
  ArrayRef<int64_t> from = shapeOf(data), to = shapeOf(indices);
  if (from.size() != to.size())
    return node.error("indices have rank " + Twine(to.size()) + ", expected " +
                      Twine(from.size()));
  for (size_t dim = 0; dim < to.size(); ++dim)
    if (int64_t(dim) != *axis && to[dim] > from[dim])
      return node.error("indices are larger than data in dimension " +
                        Twine(dim));
  // sum over dimensions of (index or position) * stride
  Type i64 = node.ops.getI64Type();
  Value linear = node.mul(fromEnd(node, indices, from[*axis]),
                          double(product(from.drop_front(*axis + 1))));
  for (int64_t dim = 0; dim < rankOf(data); ++dim) {
    if (dim == *axis)
      continue;
    Integers shape(rankOf(data), 1);
    shape[dim] = to[dim];
    Value position = node.reshape(node.iota(to[dim], i64), shape);
    linear = node.add(
        linear, node.mul(position, double(product(from.drop_front(dim + 1)))));
  }
  Value flat = node.reshape(data, {product(from)});
  return node.set(node.gather(flat, linear, 0));
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
  int64_t last = rankOf(indices) - 1, depth = to.back();
  Type i64 = node.ops.getI64Type();
  Integers pickShape(to.drop_back());
  Value linear;
  for (int64_t j = 0; j < depth; ++j) {
    Value index = node.reshape(node.slice(indices, last, j, 1), pickShape);
    index = node.mul(fromEnd(node, index, from[batch + j]),
                     double(product(from.slice(batch + j + 1, depth - j - 1))));
    linear = linear ? node.add(linear, index) : index;
  }
  for (int64_t dim = 0; dim < batch; ++dim) {
    Integers shape(pickShape.size(), 1);
    shape[dim] = from[dim];
    Value position = node.reshape(node.iota(from[dim], i64), shape);
    linear = node.add(
        linear, node.mul(position, double(product(from.slice(
                                       dim + 1, batch + depth - dim - 1)))));
  }
  Integers flat{product(from.take_front(batch + depth))};
  llvm::append_range(flat, from.drop_front(batch + depth));
  return node.set(node.gather(node.reshape(data, flat), linear, 0));
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
  Integers perm;
  for (int64_t dim = 0; dim + 1 < rankOf(x); ++dim)
    perm.push_back(dim);
  perm.insert(perm.begin() + *axis, rankOf(x) - 1);
  return node.set(node.transpose(result, perm));
}

void kerf::onnx_import::addIndexing(HandlerTable &table) {
  table.add("Gather", 1, gather);
  table.add("GatherElements", 11, gatherElements);
  table.add("GatherND", 11, gatherND);
  table.add("OneHot", 9, oneHot);
  table.add("CumSum", 11, cumulative<ReduceKind::Sum>);
  table.add("CumProd", 26, cumulative<ReduceKind::Prod>);
}
