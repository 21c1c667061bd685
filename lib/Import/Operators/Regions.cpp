//===- Regions.cpp - features at computed places --------------------------===//
//
// RoiAlign and DeformConv read an image between its pixels, at places that are
// computed: of each place the four pixels around it, times weights that are
// functions of the place. Places are along an axis first, so that a region of
// n x m places costs n + m of them; gathered are the products.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Images.h"
#include "Indexing.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {
/// Two neighbours of each place, in a last dimension: their indices (i64),
/// within the image, and weights.
struct Neighbours {
  Value indices, weights;
};
} // namespace

static Value number(Node &node, double value, Value like) {
  return node.scalar(value, elementOf(like));
}

/// `x` with a last dimension of 1.
static Value spread(Node &node, Value x) {
  if (!x)
    return {};
  Integers shape(shapeOf(x));
  shape.push_back(1);
  return node.reshape(x, shape);
}

/// Within [0, last], as indices; what is no number is somewhere there, too.
static Value clamped(Node &node, Value index, int64_t last) {
  Value at = node.cast(index, node.ops.getI64Type());
  at = node.make<MaxOp>({at, node.scalar(0, node.ops.getI64Type())});
  return node.make<MinOp>(
      {at, node.scalar(double(last), node.ops.getI64Type())});
}

//===----------------------------------------------------------------------===//
// RoiAlign
//===----------------------------------------------------------------------===//

/// The neighbours of places in an image of this size. Places up to 1 before it
/// and behind it count as its border, others have no weight.
static Neighbours aligned(Node &node, Value place, int64_t size) {
  Value first = number(node, 0, place);
  Value last = number(node, double(size - 1), place);
  Value x = node.make<MinOp>({node.make<MaxOp>({place, first}), last});
  Value below = node.make<FloorOp>({x});
  Value rest = node.sub(x, below);
  Value inside = node.make<LessEqualOp>({number(node, -1, place), place});
  Value before =
      node.make<LessEqualOp>({place, number(node, double(size), place)});
  inside = node.make<AndOp>({inside, before});
  Value weights = node.concat(
      {spread(node, node.add(node.mul(rest, -1), 1)), spread(node, rest)},
      rankOf(place));
  weights = node.select(spread(node, inside), weights, first);
  Value index = node.concat(
      {spread(node, below), spread(node, node.add(below, 1))}, rankOf(place));
  return {clamped(node, index, size - 1), weights};
}

static LogicalResult roiAlign(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  Value x = node.in(0), regions = node.in(1);
  std::string mode = node.text("mode", "avg");
  std::string frame =
      node.text("coordinate_transformation_mode",
                node.opset < 16 ? "output_half_pixel" : "half_pixel");
  int64_t height = node.integer("output_height", 1);
  int64_t width = node.integer("output_width", 1);
  int64_t samples = node.integer("sampling_ratio", 0);
  double scale = node.real("spatial_scale", 1);
  bool halfPixel = frame == "half_pixel";
  if ((mode != "avg" && mode != "max") ||
      (!halfPixel && frame != "output_half_pixel"))
    return node.error("mode is \"" + mode +
                      "\" and coordinate_transformation_mode \"" + frame +
                      "\"");
  if (samples < 1)
    return node.unsupported("sampling_ratio=0 of operator RoiAlign",
                            "a number of samples that does not depend on the "
                            "regions is taken");
  int64_t count = rankOf(regions) == 2 ? shapeOf(regions)[0] : 0;
  if (rankOf(x) != 4 || rankOf(regions) != 2 || shapeOf(regions)[1] != 4 ||
      rankOf(node.in(2)) != 1 || shapeOf(node.in(2))[0] != count ||
      typeOf(x).getNumElements() == 0 || height < 1 || width < 1)
    return node.error("expected an image of rank 4, regions of 4 numbers and "
                      "an index of an image for each");
  constexpr int64_t kMost = 1 << 16;
  if (height > kMost || width > kMost || samples > kMost)
    return node.error("output_height, output_width or sampling_ratio is above "
                      "65536");
  int64_t batch = shapeOf(x)[0], channels = shapeOf(x)[1];
  Integers sizes(shapeOf(x).drop_front(2));
  Type element = elementOf(x);
  Type wide = element.isF64() ? element : node.ops.getF32Type();
  Value corners =
      node.add(node.mul(node.cast(regions, wide), scale), halfPixel ? -0.5 : 0);
  // Regions are x and y of a corner, then of the other.
  auto along = [&](int64_t dim, int64_t cells) {
    Value start = node.slice(corners, 1, dim, 1);
    Value extent = node.sub(node.slice(corners, 1, dim + 2, 1), start);
    if (!halfPixel && extent)
      extent = node.make<MaxOp>({extent, number(node, 1, extent)});
    Value steps = node.mul(node.add(node.iota(cells * samples, wide), 0.5),
                           1 / (double(cells) * double(samples)));
    Value places = node.add(start, node.mul(extent, steps));
    return places ? aligned(node, places, sizes[dim == 0]) : Neighbours();
  };
  Neighbours rows = along(1, height), columns = along(0, width);
  if (!rows.indices || !columns.indices)
    return node.fail();
  int64_t m = height * samples, n = width * samples;
  auto outer = [&](Value value) {
    return node.reshape(value, {count, m, 2, 1, 1});
  };
  auto inner = [&](Value value) {
    return node.reshape(value, {count, 1, 1, n, 2});
  };
  Value image =
      node.reshape(indicesWithin(node, node.in(2), batch), {count, 1, 1, 1, 1});
  Value index =
      node.add(node.mul(image, double(sizes[0])), outer(rows.indices));
  index = node.add(node.mul(index, double(sizes[1])), inner(columns.indices));
  Value weight = node.mul(outer(rows.weights), inner(columns.weights));
  Value pixels = node.reshape(node.cast(toChannelsLast(node, x), wide),
                              {batch * sizes[0] * sizes[1], channels});
  Value terms = node.mul(node.gather(pixels, index, 0), spread(node, weight));
  terms = node.reshape(
      terms, {count, height, samples * 2, width, samples * 2, channels});
  bool max = mode == "max";
  Value y = node.reduce(terms, max ? ReduceKind::Max : ReduceKind::Sum, {2, 4},
                        false);
  if (!max)
    y = node.mul(y, 1 / (double(samples) * double(samples)));
  return node.set(node.cast(toChannelsFirst(node, y), element));
}

//===----------------------------------------------------------------------===//
// DeformConv
//===----------------------------------------------------------------------===//

/// The neighbours of places in an image that is 0 outside.
static Neighbours withZeros(Node &node, Value place, int64_t size) {
  Value below = node.make<FloorOp>({place});
  Value rest = node.sub(place, below);
  Value weights = node.concat(
      {spread(node, node.add(node.mul(rest, -1), 1)), spread(node, rest)},
      rankOf(place));
  Value index = node.concat(
      {spread(node, below), spread(node, node.add(below, 1))}, rankOf(place));
  if (!index)
    return {};
  Value inside = node.make<AndOp>(
      {node.make<LessEqualOp>({number(node, 0, index), index}),
       node.make<LessEqualOp>({index, number(node, double(size - 1), index)})});
  return {clamped(node, index, size - 1),
          node.select(inside, weights, number(node, 0, place))};
}

/// Each weight of the kernel is multiplied by what is at its place plus an
/// offset: columns of such pixels, then a product as of any convolution.
static LogicalResult deformConv(Node &node) {
  if (failed(node.arity(3, 5)))
    return failure();
  Value x = node.in(0), weights = node.parameter(1), offset = node.in(2);
  if (rankOf(x) != 4 || rankOf(weights) != 4 || rankOf(offset) != 4)
    return node.unsupported("operator DeformConv of other than 2 spatial "
                            "dimensions",
                            "images of rank 4 are taken");
  auto strides = perDimension(node, "strides", 2, 1);
  auto dilations = perDimension(node, "dilations", 2, 1);
  auto pads = perDimension(node, "pads", 4, 0);
  int64_t groups = node.integer("group", 1);
  int64_t offsetGroups = node.integer("offset_group", 1);
  Integers kernel(shapeOf(weights).drop_front(2));
  if (auto declared = node.integerList("kernel_shape");
      declared && *declared != kernel)
    return node.error("kernel_shape contradicts the weights");
  if (!strides || !dilations || !pads)
    return failure();
  int64_t batch = shapeOf(x)[0], channels = shapeOf(x)[1];
  int64_t taps = kernel[0] * kernel[1], made = shapeOf(weights)[0];
  Integers sizes(shapeOf(x).drop_front(2)), out(shapeOf(offset).drop_front(2));
  int64_t places = out[0] * out[1];
  if (groups < 1 || offsetGroups < 1 || channels % groups ||
      channels % offsetGroups || made % groups ||
      shapeOf(weights)[1] * groups != channels || shapeOf(offset)[0] != batch ||
      shapeOf(offset)[1] != offsetGroups * taps * 2 ||
      typeOf(x).getNumElements() == 0 || taps == 0 || places == 0)
    return node.error("input, weights, offset, group and offset_group do not "
                      "fit");
  for (int d = 0; d < 2; ++d)
    if (int64_t s = (*strides)[d], l = (*dilations)[d];
        s < 1 || l < 1 ||
        out[d] !=
            windowCount(sizes[d], kernel[d], s, (*pads)[d], (*pads)[d + 2], l))
      return node.error("offset has " + Twine(out[d]) +
                        " places in dimension " + Twine(d) +
                        ", which do not fit strides, dilations and pads");
  Type element = elementOf(x);
  Type wide = element.isF64() ? element : node.ops.getF32Type();
  Value moved = node.reshape(node.cast(offset, wide),
                             {batch, offsetGroups, taps, 2, out[0], out[1]});
  auto along = [&](int64_t d) {
    // Of the tap, and of the place of the window.
    Value tap = node.iota(taps, node.ops.getI64Type());
    Value width = node.scalar(double(kernel[1]), node.ops.getI64Type());
    tap = d == 0 ? node.div(tap, width) : node.make<RemOp>({tap, width});
    tap = node.mul(node.cast(tap, wide), double((*dilations)[d]));
    Value start =
        node.add(node.mul(node.iota(out[d], wide), double((*strides)[d])),
                 -double((*pads)[d]));
    Value at = node.add(
        node.reshape(tap, {taps, 1, 1}),
        node.reshape(start, {d == 0 ? out[0] : 1, d == 0 ? 1 : out[1]}));
    Value own = node.reshape(node.slice(moved, 3, d, 1),
                             {batch, offsetGroups, taps, out[0], out[1]});
    Value place = node.add(own, at);
    return place ? withZeros(node, place, sizes[d]) : Neighbours();
  };
  Neighbours rows = along(0), columns = along(1);
  if (!rows.indices || !columns.indices)
    return node.fail();
  Integers byRow{batch * offsetGroups, taps * places, 2, 1};
  Integers byColumn{batch * offsetGroups, taps * places, 1, 2};
  Value index =
      node.add(node.mul(node.reshape(rows.indices, byRow), double(sizes[1])),
               node.reshape(columns.indices, byColumn));
  Value weight = node.mul(node.reshape(rows.weights, byRow),
                          node.reshape(columns.weights, byColumn));
  int64_t each = channels / offsetGroups;
  Value pixels = node.transpose(
      node.reshape(node.cast(x, wide),
                   {batch * offsetGroups, each, sizes[0] * sizes[1]}),
      {0, 2, 1});
  index = node.reshape(index, {batch * offsetGroups, taps * places * 4});
  Value found = node.reshape(gatherRows(node, pixels, index, 1),
                             {batch * offsetGroups, taps * places, 4, each});
  weight = node.reshape(weight, {batch * offsetGroups, taps * places, 4, 1});
  Value terms =
      node.reduce(node.mul(found, weight), ReduceKind::Sum, {2}, false);
  if (node.has(4)) {
    if (shapeOf(node.in(4)) !=
        ArrayRef<int64_t>({batch, offsetGroups * taps, out[0], out[1]}))
      return node.error("mask does not fit offset");
    terms =
        node.mul(terms, node.reshape(node.cast(node.in(4), wide),
                                     {batch * offsetGroups, taps * places, 1}));
  }
  // [batch, channels, taps, places], cut by groups.
  terms = node.transpose(terms, {0, 2, 1});
  int64_t depth = channels / groups * taps;
  terms = node.reshape(terms, {batch, groups, depth, places});
  Value factors =
      node.reshape(node.cast(weights, wide), {groups, made / groups, depth});
  Value y = node.matmul(factors, terms);
  y = node.cast(node.reshape(y, {batch, made, out[0], out[1]}), element);
  if (node.has(3)) {
    Value bias = node.parameter(3);
    if (rankOf(bias) != 1 || shapeOf(bias)[0] != made)
      return node.error("bias must be a vector of " + Twine(made) +
                        " elements");
    y = node.add(y, node.reshape(bias, {made, 1, 1}));
  }
  return node.set(y);
}

void kerf::onnx_import::addRegions(HandlerTable &table) {
  table.add("RoiAlign", 10, roiAlign);
  table.add("DeformConv", 19, deformConv);
}
