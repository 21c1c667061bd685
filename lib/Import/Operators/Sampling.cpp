//===- Sampling.cpp - reading and writing images at computed places -------===//
//
// GridSample reads an image at positions that are computed: for each neighbour
// of a position a gather of rows (the pixels of an image, all channels of
// each), times a weight that is a function of the position. So positions get a
// gradient, too. MaxUnpool is the reverse, a scatter, and Col2Im one that adds;
// AffineGrid is a product.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Images.h"
#include "Indexing.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {

enum class Padding { Zeros, Border, Reflection };

/// Positions along one dimension of the image, [.., taps]: the indices of their
/// neighbours, all within it, and weights.
struct Neighbours {
  Value indices, weights;
};

class Sampler {
public:
  Sampler(Node &node, int64_t taps, Padding padding, bool alignCorners)
      : node(node), taps(taps), padding(padding), alignCorners(alignCorners) {}

  /// `position` is [.., 1], from -1 to 1.
  Neighbours along(Value position, int64_t size) {
    Value x = node.add(position, 1);
    x = alignCorners ? node.mul(x, double(size - 1) / 2)
                     : node.mul(node.add(node.mul(x, double(size)), -1), 0.5);
    if (taps == 1)
      x = node.make<RoundOp>({x});
    Value below = node.make<FloorOp>({x}), rest = node.sub(x, below);
    // Neighbours begin with the one below, or with cubic before that.
    Value offsets =
        node.add(node.iota(taps, elementOf(x)), -double((taps - 1) / 2));
    Value index = node.cast(node.add(below, offsets), node.ops.getI64Type());
    Value weights = weightsAt(node.make<AbsOp>({node.sub(rest, offsets)}));
    return inside(index, size, weights);
  }

private:
  Value number(double value, Value like) {
    return node.scalar(value, elementOf(like));
  }
  /// Indices within the image; weights of those that were outside become 0 if
  /// there are zeros.
  Neighbours inside(Value index, int64_t size, Value weights) {
    Value first = number(0, index), last = number(double(size - 1), index);
    if (padding == Padding::Reflection && size > 1) {
      int64_t period = alignCorners ? 2 * (size - 1) : 2 * size;
      Value m = node.make<ModOp>({index, number(double(period), index)});
      Value back = node.sub(
          number(double(alignCorners ? period : period - 1), index), m);
      index = node.make<MinOp>({m, back});
    }
    Value within = node.make<MaxOp>({first, node.make<MinOp>({index, last})});
    if (padding == Padding::Zeros)
      weights = node.select(node.make<EqualOp>({within, index}), weights,
                            number(0, weights));
    return {within, weights};
  }
  /// The weights of neighbours at these distances, which are at most half the
  /// number of taps.
  Value weightsAt(Value x) {
    if (taps == 1)
      return node.splat(shapeOf(x), 1, elementOf(x));
    if (taps == 2)
      return node.add(node.mul(x, -1), 1);
    constexpr double a = -0.75;
    // Horner's scheme, highest first.
    auto polynomial = [&](ArrayRef<double> factors) {
      Value sum = node.mul(x, factors[0]);
      for (double factor : factors.drop_front().drop_back())
        sum = node.mul(node.add(sum, factor), x);
      return node.add(sum, factors.back());
    };
    return node.select(node.make<LessEqualOp>({x, number(1, x)}),
                       polynomial({a + 2, -(a + 3), 0, 1}),
                       polynomial({a, -5 * a, 8 * a, -4 * a}));
  }

  Node &node;
  int64_t taps;
  Padding padding;
  bool alignCorners;
};

} // namespace

static LogicalResult gridSample(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0), grid = node.in(1);
  std::string mode = node.text("mode", node.opset < 20 ? "bilinear" : "linear");
  std::string padded = node.text("padding_mode", "zeros");
  bool alignCorners = node.integer("align_corners", 0);
  int64_t taps = llvm::StringSwitch<int64_t>(mode)
                     .Case("nearest", 1)
                     .Cases({"linear", "bilinear"}, 2)
                     .Cases({"cubic", "bicubic"}, 4)
                     .Default(0);
  auto padding = llvm::StringSwitch<std::optional<Padding>>(padded)
                     .Case("zeros", Padding::Zeros)
                     .Case("border", Padding::Border)
                     .Case("reflection", Padding::Reflection)
                     .Default(std::nullopt);
  if (!taps || !padding)
    return node.error("mode is \"" + mode + "\" and padding_mode \"" + padded +
                      "\"");
  if (!isImage(node, x))
    return failure();
  int64_t spatial = rankOf(x) - 2;
  if (rankOf(grid) != rankOf(x) || shapeOf(grid)[0] != shapeOf(x)[0] ||
      shapeOf(grid).back() != spatial || !isa<FloatType>(elementOf(grid)) ||
      !isa<FloatType>(elementOf(x)))
    return node.error(
        "grid must have the batch of the input and positions of " +
        Twine(spatial) + " floats");
  if (typeOf(x).getNumElements() == 0 || typeOf(grid).getNumElements() == 0)
    return node.error("an empty image cannot be sampled, or at no position");
  Type element = elementOf(x);
  Type wide = element.isF64() ? element : node.ops.getF32Type();
  Integers sizes(shapeOf(x).drop_front(2));
  int64_t batch = shapeOf(x)[0], channels = shapeOf(x)[1];
  Integers made(shapeOf(grid).drop_front().drop_back());
  int64_t count = llvm::product_of(made);
  Value pixels = node.reshape(node.cast(toChannelsLast(node, x), wide),
                              {batch, llvm::product_of(sizes), channels});
  Sampler sampler(node, taps, *padding, alignCorners);
  // Neighbours in all dimensions: one more dimension for each.
  Value index, weight;
  for (int64_t d = 0; d < spatial; ++d) {
    // Positions name the last dimension first.
    Value position = node.reshape(
        node.slice(node.cast(grid, wide), rankOf(grid) - 1, spatial - 1 - d, 1),
        {batch, count, 1});
    Neighbours found = sampler.along(position, sizes[d]);
    Integers shape{batch, count};
    shape.append(spatial, 1);
    shape[2 + d] = taps;
    Value at = node.reshape(found.indices, shape);
    Value own = node.reshape(found.weights, shape);
    index = index ? node.add(node.mul(index, double(sizes[d])), at) : at;
    weight = weight ? node.mul(weight, own) : own;
  }
  if (!index || !weight)
    return node.fail();
  int64_t all = typeOf(index).getNumElements() / (batch * count);
  Value terms = node.mul(
      node.reshape(gatherRows(node, pixels,
                              node.reshape(index, {batch, count * all}), 1),
                   {batch, count, all, channels}),
      node.reshape(weight, {batch, count, all, 1}));
  Value sum = node.reduce(terms, ReduceKind::Sum, {2}, false);
  Integers shape{batch};
  llvm::append_range(shape, made);
  shape.push_back(channels);
  return node.set(
      node.cast(toChannelsFirst(node, node.reshape(sum, shape)), element));
}

static LogicalResult affineGrid(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value theta = node.in(0);
  auto given = node.constantIntegers(1);
  bool alignCorners = node.integer("align_corners", 0);
  if (!given)
    return failure();
  int64_t spatial = int64_t(given->size()) - 2;
  if (spatial < 2 || spatial > 3 || rankOf(theta) != 3 ||
      shapeOf(theta)[0] != (*given)[0] || shapeOf(theta)[1] != spatial ||
      shapeOf(theta)[2] != spatial + 1 || !isa<FloatType>(elementOf(theta)))
    return node.error("theta must be floats of shape N x 2 x 3 or N x 3 x 4, "
                      "and size have 4 or 5 entries");
  Integers sizes(ArrayRef(*given).drop_front(2));
  for (int64_t size : sizes)
    if (size < 1 || size > (1 << 20))
      return node.error("size has " + Twine(size));
  // Positions of the result as (x, y, ..., 1).
  Type element = elementOf(theta);
  SmallVector<Value> columns;
  Integers whole(sizes);
  whole.push_back(1);
  for (int64_t d = spatial - 1; d >= 0; --d) {
    double size = double(sizes[d]);
    double step = alignCorners ? (size > 1 ? 2 / (size - 1) : 0) : 2 / size;
    double first = alignCorners ? (size > 1 ? -1 : 0) : step / 2 - 1;
    Integers shape(spatial + 1, 1);
    shape[d] = sizes[d];
    Value places = node.add(
        node.mul(node.iota(sizes[d], node.ops.getF64Type()), step), first);
    columns.push_back(
        node.broadcast(node.reshape(node.cast(places, element), shape), whole));
  }
  columns.push_back(node.splat(whole, 1, element));
  Value base = node.reshape(node.concat(columns, spatial),
                            {llvm::product_of(sizes), spatial + 1});
  Value grid = node.matmul(base, theta, false, /*transposeRhs=*/true);
  Integers shape{shapeOf(theta)[0]};
  llvm::append_range(shape, sizes);
  shape.push_back(spatial);
  return node.set(node.reshape(grid, shape));
}

static LogicalResult maxUnpool(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  Value x = node.in(0);
  if (!isImage(node, x))
    return failure();
  node.requireAttribute("kernel_shape");
  size_t count = rankOf(x) - 2;
  auto kernel = perDimension(node, "kernel_shape", count, 1);
  auto strides = perDimension(node, "strides", count, 1);
  auto pads = perDimension(node, "pads", 2 * count, 0);
  Value indices = wideIndices(node, node.in(1));
  if (!kernel || !strides || !pads || !indices || node.failed)
    return failure();
  if (shapeOf(indices) != shapeOf(x) ||
      !(elementOf(x).isF32() || elementOf(x).isF64()))
    return node.error("indices must have the shape of the input, which must be "
                      "of float32 or float64");
  Integers shape(shapeOf(x).take_front(2)), high(shape.size(), 0);
  for (size_t d = 0; d < count; ++d)
    shape.push_back((shapeOf(x)[d + 2] - 1) * (*strides)[d] + (*kernel)[d] -
                    (*pads)[d] - (*pads)[d + count]);
  if (node.has(2)) {
    auto wanted = node.constantIntegers(2);
    if (!wanted)
      return failure();
    if (wanted->size() != shape.size())
      return node.error("output_shape must have " + Twine(shape.size()) +
                        " entries");
    for (size_t d = 2; d < shape.size(); ++d)
      high.push_back((*wanted)[d] - shape[d]);
  }
  for (auto [d, size] : llvm::enumerate(shape))
    if (size < 1 || size > (int64_t(1) << 32) ||
        (d < high.size() && high[d] < 0))
      return node.error("dimension " + Twine(d) + " becomes " + Twine(size));
  int64_t total = llvm::product_of(shape);
  Value rows = indicesWithin(
      node, node.reshape(indices, {typeOf(x).getNumElements()}), total);
  Value zeros = node.splat({total}, 0, elementOf(x));
  if (!rows || !zeros)
    return node.fail();
  Value image = node.reshape(
      node.make<ScatterOp>(
          {zeros, rows, node.reshape(x, {typeOf(x).getNumElements()})},
          {node.ops.getNamedAttr(
               "kind", ScatterKindAttr::get(node.context, ScatterKind::Set)),
           node.i64("dim", 0)}),
      shape);
  if (node.has(2) && llvm::any_of(high, [](int64_t size) { return size > 0; }))
    image = node.make<PadOp>(
        {image},
        {node.i64s("low", Integers(shape.size(), 0)), node.i64s("high", high),
         node.ops.getNamedAttr("value", node.number(0, elementOf(x)))});
  return node.set(image);
}

static LogicalResult col2Im(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  Value x = node.in(0);
  auto image = node.constantIntegers(1), block = node.constantIntegers(2);
  if (!image || !block)
    return failure();
  size_t count = image->size();
  auto strides = perDimension(node, "strides", count, 1);
  auto dilations = perDimension(node, "dilations", count, 1);
  auto pads = perDimension(node, "pads", 2 * count, 0);
  if (!strides || !dilations || !pads || node.failed)
    return failure();
  if (!elementOf(x).isF32() && !elementOf(x).isF64())
    return node.unsupported(
        "operator Col2Im of other types than float32 and float64");
  if (count < 1 || count > 3 || block->size() != count || rankOf(x) != 3)
    return node.error("expected columns of rank 3 and as many block sizes as "
                      "sizes, 1 to 3");
  Integers made{shapeOf(x)[0]}, low, high;
  for (size_t d = 0; d < count; ++d) {
    low.push_back((*pads)[d]);
    high.push_back((*pads)[d + count]);
    if ((*block)[d] < 1 || (*strides)[d] < 1 || (*dilations)[d] < 1 ||
        low[d] < 0 || high[d] < 0 || (*image)[d] < 1)
      return node.error(
          "sizes, strides and dilations must be positive and pads "
          "not negative");
    made.push_back(windowCount((*image)[d], (*block)[d], (*strides)[d], low[d],
                               high[d], (*dilations)[d]));
  }
  int64_t places = llvm::product_of(*block), rows = shapeOf(x)[1];
  if (rows % places || shapeOf(x)[2] != llvm::product_of(made) / made[0] ||
      typeOf(x).getNumElements() == 0)
    return node.error("columns do not fit the blocks of the image");
  // Row c * places + r of column l is added to channel c where block l has its
  // place r, in an image with its padding, which is cut off at the end.
  int64_t planes = made[0] * (rows / places), pitch = 1;
  Integers padded{planes};
  for (size_t d = 0; d < count; ++d)
    padded.push_back(low[d] + (*image)[d] + high[d]);
  Value at = node.scalar(0, node.ops.getI64Type());
  auto count64 = int64_t(count);
  for (int64_t d = count64; d-- > 0; pitch *= padded[d + 1])
    for (auto [axis, size, step] :
         {std::tuple(d, (*block)[d], (*dilations)[d]),
          std::tuple(count64 + d, made[d + 1], (*strides)[d])}) {
      Integers shape(2 * count, 1);
      shape[axis] = size;
      at = node.add(
          at,
          node.mul(node.reshape(node.iota(size, node.ops.getI64Type()), shape),
                   double(step * pitch)));
    }
  Value zeros = node.splat({pitch, planes}, 0, elementOf(x));
  if (!at || !zeros)
    return node.fail();
  int64_t numPlaced = typeOf(x).getNumElements() / planes;
  Value sum = node.make<ScatterOp>(
      {zeros, node.reshape(at, {numPlaced}),
       node.transpose(node.reshape(x, {planes, numPlaced}), {1, 0})},
      {node.ops.getNamedAttr(
           "kind", ScatterKindAttr::get(node.context, ScatterKind::Add)),
       node.i64("dim", 0)});
  sum = node.reshape(node.transpose(sum, {1, 0}), padded);
  for (size_t d = 0; d < count; ++d)
    sum = node.slice(sum, int64_t(d) + 1, low[d], (*image)[d]);
  Integers shape{made[0], rows / places};
  llvm::append_range(shape, *image);
  return node.set(node.reshape(sum, shape));
}

void kerf::onnx_import::addSampling(HandlerTable &table) {
  table.add("GridSample", 16, gridSample);
  table.add("AffineGrid", 20, affineGrid);
  table.add("MaxUnpool", 9, maxUnpool);
  table.add("Col2Im", 18, col2Im);
}
