//===- Resize.cpp - resampling of tensors ---------------------------------===//
//
// Scales and sizes are constants, and every mode is separable: along each axis
// an element of the result is a sum of a few elements of the operand (taps),
// whose positions and weights are known here. So an axis becomes existing ops:
// a repetition (reshape and broadcast) or a strided slice where each element is
// one of the operand's in a regular pattern, a gather where the pattern is not,
// gathers times weights of up to four taps (linear, cubic), and a gather of all
// taps with a sum over them where there are more (antialias). A product with a
// matrix of weights would cost as many operations as the axis is long. Gradient
// and sharding (any axis that keeps its size) follow from these ops.
//
// Numbers are computed in f32, as ONNX Runtime and PyTorch do: which neighbour
// is nearest depends on it. Images are put channels last, where convolutions
// have them.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Images.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <map>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {

/// What the attributes say.
struct Resampling {
  std::string mode = "nearest", coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubicA = -0.75;
  bool antialias = false, excludeOutside = false;
  float extrapolation = 0;
};

/// One axis: lengths, and the part of the operand that is taken.
struct Axis {
  int64_t from = 1, to = 1;
  float scale = 1, start = 0, end = 1;
};

/// Elements of the operand with their weights, by position.
using Taps = std::map<int64_t, double>;

/// For each element of the result its taps; none where it is extrapolated.
using AxisTaps = SmallVector<std::optional<Taps>, 0>;

} // namespace

/// The position in the operand of element `i` of the result.
static float coordinate(const Resampling &how, const Axis &axis, int64_t i) {
  auto x = float(i), length = float(axis.from);
  float resized = axis.scale * length;
  StringRef mode = how.coordinates;
  if (mode == "align_corners")
    return resized == 1 ? 0 : x * (length - 1) / (resized - 1);
  if (mode == "asymmetric")
    return x / axis.scale;
  if (mode == "tf_crop_and_resize") {
    float part = (axis.end - axis.start) * (length - 1);
    return axis.start * (length - 1) +
           (resized == 1 ? part / 2 : x * part / (resized - 1));
  }
  if (mode == "tf_half_pixel_for_nn")
    return (x + 0.5f) / axis.scale;
  if (mode == "pytorch_half_pixel" && resized == 1)
    return 0;
  float center = (x + 0.5f) / axis.scale - 0.5f;
  if (mode == "half_pixel_symmetric")
    return length / 2 * (1 - float(axis.to) / resized) + center;
  return center;
}

/// The weight of an element at this distance.
static double filter(const Resampling &how, double distance) {
  double x = std::abs(distance), a = how.cubicA;
  if (how.mode == "linear")
    return std::max(0.0, 1 - x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

static int64_t nearestTo(const Resampling &how, const Axis &axis, float at) {
  float below = std::floor(at), rest = at - below;
  bool up = how.nearest == "simple"              ? axis.scale < 1 && rest > 0
            : how.nearest == "ceil"              ? rest > 0
            : how.nearest == "floor"             ? false
            : how.nearest == "round_prefer_ceil" ? rest >= 0.5f
                                                 : rest > 0.5f;
  return int64_t(below) + up;
}

static std::optional<Taps> tapsOf(const Resampling &how, const Axis &axis,
                                  int64_t i) {
  float at = coordinate(how, axis, i);
  if (how.coordinates == "tf_crop_and_resize" &&
      (at < 0 || at > float(axis.from - 1)))
    return std::nullopt;
  auto inside = [&](int64_t position) {
    return std::clamp<int64_t>(position, 0, axis.from - 1);
  };
  if (how.mode == "nearest")
    return Taps{{inside(nearestTo(how, axis, at)), 1.0}};
  // Smaller results weigh a wider window.
  double narrowing = how.antialias ? std::min(axis.scale, 1.0f) : 1.0;
  double support = how.mode == "linear" ? 1 : 2;
  auto below = int64_t(std::floor(at));
  double rest = double(at) - double(below), sum = 0;
  auto first = int64_t(std::floor(-support / narrowing)) + 1;
  Taps taps;
  for (int64_t k = first; k < 2 - first; ++k) {
    double weight = filter(how, (double(k) - rest) * narrowing);
    if (weight == 0 || (how.excludeOutside && inside(below + k) != below + k))
      continue;
    taps[inside(below + k)] += weight;
    sum += weight;
  }
  if (how.antialias || how.excludeOutside)
    for (auto &[position, weight] : taps)
      weight /= sum;
  return taps;
}

//===----------------------------------------------------------------------===//
// One axis
//===----------------------------------------------------------------------===//

/// `x` at these positions along a dimension.
static Value pick(Node &node, Value x, int64_t dim, ArrayRef<int64_t> at) {
  int64_t size = shapeOf(x)[dim], count = int64_t(at.size());
  int64_t stride = count > 1 ? at[1] - at[0] : 1, times = count / size;
  bool even = true, repeated = times > 1 && count % size == 0;
  for (int64_t i = 0; i < count; ++i) {
    even &= at[i] == at[0] + i * stride;
    repeated = repeated && at[i] == i / times;
  }
  if (even && stride != 0)
    return node.slice(x, dim, at[0], count, stride);
  if (!repeated)
    return node.gather(x, node.integers(at), dim);
  Integers shape(shapeOf(x)), wide(shape);
  shape.insert(shape.begin() + dim + 1, 1);
  wide.insert(wide.begin() + dim + 1, times);
  Value copies = node.broadcast(node.reshape(x, shape), wide);
  wide.erase(wide.begin() + dim + 1);
  wide[dim] = count;
  return node.reshape(copies, wide);
}

/// Numbers along dimension `dim` (and the next ones) of a tensor of this rank.
static Value numbers(Node &node, ArrayRef<double> values, Integers shape,
                     Type element) {
  SmallVector<Attribute> list;
  for (double value : values)
    list.push_back(node.number(value, element));
  return node.constant(
      DenseElementsAttr::get(RankedTensorType::get(shape, element), list));
}

static Value resample(Node &node, Value x, int64_t dim, const AxisTaps &taps) {
  size_t most = 1;
  for (const std::optional<Taps> &each : taps)
    most = std::max(most, each ? each->size() : 0);
  // Those with fewer taps have their first one several times: its weight in
  // parts, the least twice in front, whose sums are exact. A weight of zero
  // would make NaN of what is infinite.
  auto count = int64_t(taps.size()), width = int64_t(most);
  Integers at;
  SmallVector<double> weights;
  for (const std::optional<Taps> &each : taps) {
    if (!each) {
      at.append(width, 0);
      weights.append(width, 0);
      continue;
    }
    auto extra = int(most - each->size());
    for (auto [position, weight] : *each) {
      for (int i = 0; i <= extra; ++i) {
        at.push_back(position);
        weights.push_back(std::ldexp(weight, -std::min(extra, extra + 1 - i)));
      }
      extra = 0;
    }
  }
  bool copies = width == 1 && llvm::all_equal(weights) && weights[0] == 1;
  if (copies)
    return pick(node, x, dim, at);
  Type element = elementOf(x);
  Integers shape(rankOf(x) - dim, 1);
  shape[0] = count;
  if (width > 4) {
    shape.insert(shape.begin() + 1, width);
    Value places = node.reshape(node.integers(at), {count, width});
    Value terms = node.mul(node.gather(x, places, dim),
                           numbers(node, weights, shape, element));
    return terms ? node.reduce(terms, ReduceKind::Sum, {dim + 1}, false)
                 : terms;
  }
  Value sum;
  for (int64_t t = 0; t < width; ++t) {
    Integers places;
    SmallVector<double> column;
    for (int64_t i = 0; i < count; ++i) {
      places.push_back(at[i * width + t]);
      column.push_back(weights[i * width + t]);
    }
    Value term = node.mul(pick(node, x, dim, places),
                          numbers(node, column, shape, element));
    sum = sum ? node.add(sum, term) : term;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

static bool isWhole(const AxisTaps &taps, int64_t size) {
  if (int64_t(taps.size()) != size)
    return false;
  for (auto [i, each] : llvm::enumerate(taps))
    if (!each || each->size() != 1 || each->begin()->first != int64_t(i) ||
        each->begin()->second != 1)
      return false;
  return true;
}

static LogicalResult resize(Node &node, const Resampling &how,
                            ArrayRef<Axis> axes) {
  Value x = node.in(0);
  Type element = elementOf(x);
  SmallVector<AxisTaps> taps;
  for (const Axis &axis : axes) {
    if (axis.to < 0 || axis.to > (int64_t(1) << 31) || !(axis.scale > 0))
      return node.error("size " + Twine(axis.from) + " cannot become " +
                        Twine(axis.to));
    taps.emplace_back();
    if (axis.from == 0 && axis.to > 0)
      return node.error("an empty dimension cannot be resized");
    for (int64_t i = 0; i < axis.to; ++i)
      taps.back().push_back(tapsOf(how, axis, i));
  }
  auto changes = [&](size_t dim) {
    return !isWhole(taps[dim], axes[dim].from);
  };
  bool image = axes.size() > 2 && !changes(0) && !changes(1);
  if (how.mode != "nearest" && !element.isF64())
    x = node.cast(x, node.ops.getF32Type());
  if (image)
    x = toChannelsLast(node, x);
  Value outside;
  for (size_t axis = image ? 2 : 0; axis < axes.size(); ++axis) {
    if (!changes(axis))
      continue;
    auto dim = int64_t(image ? axis - 1 : axis);
    x = resample(node, x, dim, taps[axis]);
    if (!x)
      return node.fail();
    SmallVector<bool> list;
    for (const std::optional<Taps> &each : taps[axis])
      list.push_back(!each);
    if (!llvm::is_contained(list, true))
      continue;
    Integers shape(rankOf(x) - dim, 1);
    shape[0] = axes[axis].to;
    Value here = node.constant(DenseElementsAttr::get(
        RankedTensorType::get(shape, node.ops.getI1Type()), list));
    outside = outside ? node.make<OrOp>({outside, here}) : here;
  }
  if (outside)
    x = node.select(outside, node.scalar(how.extrapolation, elementOf(x)), x);
  if (image)
    x = toChannelsFirst(node, x);
  return node.set(node.cast(x, element));
}

static bool isOneOf(Node &node, StringRef name, StringRef value,
                    ArrayRef<StringRef> known) {
  if (llvm::is_contained(known, value))
    return true;
  (void)node.error(name + " is \"" + value + "\", expected " +
                   llvm::join(known, ", "));
  return false;
}

/// The numbers of a constant input; none if it is absent or empty.
static std::optional<SmallVector<float>> floatsOf(Node &node, size_t index) {
  Value x = node.in(index);
  return x && typeOf(x).getNumElements() != 0 ? node.constantFloats(index)
                                              : std::nullopt;
}

static SmallVector<Axis> wholeAxes(Value x) {
  SmallVector<Axis> axes;
  for (int64_t size : shapeOf(x)) {
    axes.emplace_back();
    axes.back().from = axes.back().to = size;
  }
  return axes;
}

static LogicalResult setScales(Node &node, ArrayRef<float> scales,
                               ArrayRef<int64_t> dims,
                               MutableArrayRef<Axis> axes) {
  if (scales.size() != dims.size())
    return node.error(Twine(scales.size()) + " scales for " +
                      Twine(dims.size()) + " axes");
  for (auto [dim, scale] : llvm::zip_equal(dims, scales)) {
    if (!(scale > 0) || scale > 1e9f)
      return node.error("scales must be positive");
    axes[dim].scale = scale;
    axes[dim].to = int64_t(std::floor(float(axes[dim].from) * scale));
  }
  return success();
}

static LogicalResult setSizes(Node &node, ArrayRef<int64_t> sizes,
                              StringRef policy, ArrayRef<int64_t> dims,
                              MutableArrayRef<Axis> axes) {
  if (sizes.size() != dims.size())
    return node.error(Twine(sizes.size()) + " sizes for " + Twine(dims.size()) +
                      " axes");
  float joint = 0;
  for (auto [dim, size] : llvm::zip_equal(dims, sizes)) {
    Axis &axis = axes[dim];
    if (size < 1 || size > (int64_t(1) << 31) || axis.from == 0)
      return node.error("size " + Twine(axis.from) + " cannot become " +
                        Twine(size));
    axis.to = size;
    axis.scale = float(size) / float(axis.from);
    joint = joint == 0                ? axis.scale
            : policy == "not_smaller" ? std::max(joint, axis.scale)
                                      : std::min(joint, axis.scale);
  }
  if (policy != "stretch")
    for (int64_t dim : dims) {
      axes[dim].scale = joint;
      axes[dim].to = int64_t(joint * float(axes[dim].from) + 0.5f);
    }
  return success();
}

static LogicalResult resizeOp(Node &node) {
  if (failed(node.arity(1, 4)))
    return failure();
  Resampling how;
  Value x = node.in(0);
  how.mode = node.text("mode", "nearest");
  how.coordinates = node.text("coordinate_transformation_mode", "half_pixel");
  how.nearest = node.text("nearest_mode", "round_prefer_floor");
  how.cubicA = node.real("cubic_coeff_a", -0.75);
  how.excludeOutside = node.integer("exclude_outside", 0);
  how.extrapolation = float(node.real("extrapolation_value", 0));
  how.antialias = node.opset >= 18 && node.integer("antialias", 0);
  std::string policy = node.opset < 18
                           ? "stretch"
                           : node.text("keep_aspect_ratio_policy", "stretch");
  if (!isOneOf(node, "mode", how.mode, {"nearest", "linear", "cubic"}) ||
      !isOneOf(node, "coordinate_transformation_mode", how.coordinates,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                "tf_crop_and_resize"}) ||
      !isOneOf(node, "nearest_mode", how.nearest,
               {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) ||
      !isOneOf(node, "keep_aspect_ratio_policy", policy,
               {"stretch", "not_larger", "not_smaller"}))
    return failure();
  SmallVector<Axis> axes = wholeAxes(x);
  Integers dims;
  if (auto given = node.opset < 18 ? std::nullopt : node.integerList("axes")) {
    for (int64_t axis : *given) { // in the order of scales and sizes
      auto dim = node.axisWithin(axis, rankOf(x));
      if (!dim)
        return failure();
      if (llvm::is_contained(dims, *dim))
        return node.error("axes name dimension " + Twine(*dim) + " twice");
      dims.push_back(*dim);
    }
  } else {
    llvm::append_range(dims, llvm::seq<int64_t>(0, rankOf(x)));
  }
  auto scales = floatsOf(node, 2);
  bool sized = node.has(3) && typeOf(node.in(3)).getNumElements() > 0;
  if (node.failed)
    return failure();
  if (bool(scales) == sized)
    return node.error("expected either scales or sizes");
  if (scales && failed(setScales(node, *scales, dims, axes)))
    return failure();
  if (sized) {
    auto sizes = node.constantIntegers(3);
    if (!sizes || failed(setSizes(node, *sizes, policy, dims, axes)))
      return failure();
  }
  if (how.coordinates == "tf_crop_and_resize") {
    auto roi = floatsOf(node, 1);
    if (!roi || roi->size() != 2 * dims.size())
      return node.failed ? failure()
                         : node.error("roi must have a start and an end for "
                                      "each axis");
    for (auto [i, dim] : llvm::enumerate(dims)) {
      axes[dim].start = (*roi)[i];
      axes[dim].end = (*roi)[i + dims.size()];
    }
  }
  return resize(node, how, axes);
}

/// Resize of operator set 10, and Upsample: positions are those of the left
/// corners. ONNX does not say which neighbour is nearest; ONNX Runtime takes
/// the lower one where the result is larger, else the upper one.
static LogicalResult upsample(Node &node) {
  bool attribute = node.opset < 9;
  if (failed(attribute ? node.arity(1, 1) : node.arity(2, 2)))
    return failure();
  Resampling how;
  how.mode = node.text("mode", "nearest");
  how.coordinates = "asymmetric";
  how.nearest = "simple";
  if (how.mode == "bilinear")
    how.mode = "linear";
  if (!isOneOf(node, "mode", how.mode, {"nearest", "linear"}))
    return failure();
  Value x = node.in(0);
  SmallVector<Axis> axes = wholeAxes(x);
  Integers dims = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  std::optional<SmallVector<float>> scales;
  if (!attribute) {
    scales = floatsOf(node, 1);
  } else if (node.opset < 7) {
    node.requireAttribute("height_scale");
    node.requireAttribute("width_scale");
    if (rankOf(x) != 4)
      return node.error("input has rank " + Twine(rankOf(x)) + ", expected 4");
    scales = SmallVector<float>{1, 1, float(node.real("height_scale", 1)),
                                float(node.real("width_scale", 1))};
  } else if (auto list = node.realList("scales")) {
    scales = SmallVector<float>(list->begin(), list->end());
  }
  if (node.failed)
    return failure();
  if (!scales)
    return node.error("scales are missing");
  if (failed(setScales(node, *scales, dims, axes)))
    return failure();
  return resize(node, how, axes);
}

void kerf::onnx_import::addResize(HandlerTable &table) {
  table.add("Upsample", 1, upsample);
  table.add("Resize", 10, upsample);
  table.add("Resize", 11, resizeOp);
}
