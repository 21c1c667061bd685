//===- Windows.cpp - convolutions, pools, channel normalization -----------===//
//
// ONNX images are channels first; nn's are channels last. Each operator here is
// put between two transposes, which the simplification cancels.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"
#include "Images.h"

#include "llvm/ADT/StringSwitch.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

Value kerf::onnx_import::toChannelsLast(Node &node, Value x) {
  if (!x)
    return {};
  Integers perm{0};
  for (int64_t dim = 2; dim < rankOf(x); ++dim)
    perm.push_back(dim);
  perm.push_back(1);
  return node.transpose(x, perm);
}

Value kerf::onnx_import::toChannelsFirst(Node &node, Value x) {
  if (!x)
    return {};
  Integers perm{0, rankOf(x) - 1};
  for (int64_t dim = 1; dim + 1 < rankOf(x); ++dim)
    perm.push_back(dim);
  return node.transpose(x, perm);
}

std::optional<Integers> kerf::onnx_import::perDimension(Node &node,
                                                        StringRef name,
                                                        size_t count,
                                                        int64_t otherwise) {
  auto list = node.integerList(name);
  if (!list)
    return Integers(count, otherwise);
  if (list->size() != count) {
    (void)node.error(name + " has " + Twine(list->size()) +
                     " entries, expected " + Twine(count));
    return std::nullopt;
  }
  for (int64_t entry : *list)
    if (entry < -(int64_t(1) << 31) || entry > (int64_t(1) << 31)) {
      (void)node.error(name + " has entry " + Twine(entry) + ", out of range");
      return std::nullopt;
    }
  return list;
}

std::optional<AutoPad> kerf::onnx_import::autoPadOf(Node &node) {
  std::string name = node.text("auto_pad", "NOTSET");
  auto found = StringSwitch<std::optional<AutoPad>>(name)
                   .Cases({"NOTSET", ""}, AutoPad::None)
                   .Case("SAME_UPPER", AutoPad::SameUpper)
                   .Case("SAME_LOWER", AutoPad::SameLower)
                   .Case("VALID", AutoPad::Valid)
                   .Default(std::nullopt);
  if (!found)
    (void)node.error("auto_pad is \"" + name +
                     "\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  return found;
}

std::pair<int64_t, int64_t> kerf::onnx_import::splitPad(AutoPad automatic,
                                                        int64_t total) {
  int64_t low = automatic == AutoPad::SameUpper ? total / 2 : total - total / 2;
  return {low, total - low};
}

/// Reads strides, dilations, pads and auto_pad for an image of these spatial
/// sizes.
static std::optional<WindowShape> window(Node &node, ArrayRef<int64_t> image,
                                         Integers kernel, bool ceilMode) {
  size_t count = image.size();
  auto strides = perDimension(node, "strides", count, 1);
  auto dilations = perDimension(node, "dilations", count, 1);
  auto pads = perDimension(node, "pads", 2 * count, 0);
  auto automatic = autoPadOf(node);
  if (!strides || !dilations || !pads || !automatic || node.failed)
    return std::nullopt;
  WindowShape w{std::move(kernel), *strides, *dilations, {}, {}, {}};
  for (size_t d = 0; d < count; ++d) {
    int64_t k = w.kernel[d], s = w.strides[d], l = w.dilations[d];
    if (k < 1 || s < 1 || l < 1 || k > (int64_t(1) << 31)) {
      (void)node.error("kernel, strides and dilations must be positive, got " +
                       Twine(k) + ", " + Twine(s) + " and " + Twine(l));
      return std::nullopt;
    }
    int64_t low = (*pads)[d], high = (*pads)[d + count];
    int64_t span = l * (k - 1) + 1;
    if (*automatic == AutoPad::Valid) {
      low = high = 0;
    } else if (*automatic != AutoPad::None) {
      int64_t windows = (image[d] + s - 1) / s;
      std::tie(low, high) =
          splitPad(*automatic,
                   std::max<int64_t>(0, (windows - 1) * s + span - image[d]));
    }
    if (low < 0 || high < 0) {
      (void)node.unsupported("negative pads",
                             "Slice in front of it and no pads are taken");
      return std::nullopt;
    }
    w.low.push_back(low);
    w.declaredHigh.push_back(high);
    int64_t room = image[d] + low + high - span;
    if (room < 0 && !(ceilMode && room > -s)) {
      (void)node.error("window of " + Twine(span) + " does not fit size " +
                       Twine(image[d]) + " with pads " + Twine(low) + " and " +
                       Twine(high));
      return std::nullopt;
    }
    if (ceilMode) {
      int64_t windows = (room + s - 1) / s + 1;
      // A window that starts in the padding at the end is left out.
      if ((windows - 1) * s >= image[d] + low)
        --windows;
      high = std::max(high, (windows - 1) * s + span - image[d] - low);
    }
    w.high.push_back(high);
  }
  return w;
}

static SmallVector<NamedAttribute> windowAttributes(Node &node,
                                                    const WindowShape &w) {
  return {node.i64s("strides", w.strides), node.i64s("low", w.low),
          node.i64s("high", w.high), node.i64s("dilations", w.dilations)};
}

bool kerf::onnx_import::isImage(Node &node, Value x) {
  if (rankOf(x) >= 3 && rankOf(x) <= 5)
    return true;
  (void)node.error("input has rank " + Twine(rankOf(x)) +
                   ", expected 3 to 5 (batch, channels and 1 to 3 spatial "
                   "dimensions)");
  return false;
}

/// An exporter's constant for "no bias"; a parameter would have a name.
static bool isZeroLiteral(Value x) {
  auto constant = x ? x.getDefiningOp<ConstantOp>() : ConstantOp();
  if (!constant || constant.getName() || !constant.getElements().isSplat() ||
      !isa<FloatType>(elementOf(x)))
    return false;
  return constant.getElements().getSplatValue<APFloat>().isZero();
}

LogicalResult kerf::onnx_import::addBias(Node &node, Value &result,
                                         int64_t channels) {
  if (!node.has(2) || isZeroLiteral(node.in(2)))
    return success();
  Value bias = node.parameter(2);
  if (rankOf(bias) != 1 || shapeOf(bias)[0] != channels)
    return node.error("bias must be a vector of " + Twine(channels) +
                      " elements");
  if (result)
    result = node.add(result, bias);
  return success();
}

Value kerf::onnx_import::convolution(Node &node, Value x, Value weights) {
  if (!x || !weights || !isImage(node, x))
    return {};
  if (rankOf(weights) != rankOf(x))
    return (void)node.error("weights have rank " + Twine(rankOf(weights)) +
                            ", expected " + Twine(rankOf(x))),
           Value();
  Integers kernel(shapeOf(weights).drop_front(2));
  if (auto declared = node.integerList("kernel_shape");
      declared && *declared != kernel)
    return (void)node.error("kernel_shape contradicts the weights"), Value();
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || shapeOf(weights)[0] % groups ||
      shapeOf(x)[1] != shapeOf(weights)[1] * groups)
    return (void)node.error("input has " + Twine(shapeOf(x)[1]) +
                            " channels, weights " + Twine(shapeOf(weights)[0]) +
                            " x " + Twine(shapeOf(weights)[1]) +
                            ", which do not fit group " + Twine(groups)),
           Value();
  auto w = window(node, shapeOf(x).drop_front(2), kernel, false);
  if (!w)
    return {};
  SmallVector<NamedAttribute> attributes = windowAttributes(node, *w);
  attributes.push_back(node.i64("groups", groups));
  return node.make<ConvOp>({toChannelsLast(node, x), weights}, attributes);
}

Value kerf::onnx_import::convolve(Node &node) {
  Value weights = node.parameter(1);
  Value result = convolution(node, node.in(0), weights);
  if (!result || failed(addBias(node, result, shapeOf(weights)[0])))
    return {};
  return toChannelsFirst(node, result);
}

static LogicalResult conv(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  return node.set(convolve(node));
}

/// A convolution of each channel by itself over what is there, with what was
/// there before in front; the end of that is the state.
static LogicalResult causalConvWithState(Node &node) {
  if (failed(node.arity(2, 4, 2)))
    return failure();
  Value x = node.in(0), weights = node.parameter(1), state = node.in(3);
  std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return node.error("activation is \"" + activation +
                      "\", expected none, silu or swish");
  if (rankOf(x) != 3 || rankOf(weights) != 3 || shapeOf(weights)[1] != 1 ||
      shapeOf(weights)[0] != shapeOf(x)[1] || shapeOf(weights)[2] < 1)
    return node.error("input must be [batch, channels, length] and weight "
                      "[channels, 1, k]");
  Integers before(shapeOf(x));
  before[2] = shapeOf(weights)[2] - 1;
  if (!state)
    state = node.splat(before, 0, elementOf(x));
  if (shapeOf(state) != ArrayRef<int64_t>(before) ||
      elementOf(state) != elementOf(x))
    return node.error(
        "past_state must be [batch, channels, k - 1], of the type "
        "of input");
  Value all = before[2] == 0 ? x : node.concat({state, x}, 2);
  if (!all)
    return node.fail();
  if (node.wants(1) &&
      failed(node.set(
          1, node.slice(all, 2, shapeOf(all)[2] - before[2], before[2]))))
    return failure();
  Integers ones{1};
  Value y =
      node.make<ConvOp>({toChannelsLast(node, all), weights},
                        {node.i64s("strides", ones), node.i64s("low", {0}),
                         node.i64s("high", {0}), node.i64s("dilations", ones),
                         node.i64("groups", shapeOf(x)[1])});
  if (failed(addBias(node, y, shapeOf(x)[1])))
    return failure();
  y = toChannelsFirst(node, y);
  if (activation != "none")
    y = node.mul(y, node.make<SigmoidOp>({y}));
  return node.set(y);
}

static std::optional<WindowShape> poolWindow(Node &node, Value x,
                                             bool ceilMode) {
  if (!isImage(node, x))
    return std::nullopt;
  node.requireAttribute("kernel_shape");
  auto kernel = perDimension(node, "kernel_shape", rankOf(x) - 2, 1);
  if (!kernel || node.failed)
    return std::nullopt;
  return window(node, shapeOf(x).drop_front(2), *kernel, ceilMode);
}

static LogicalResult maxPool(Node &node) {
  if (failed(node.arity(1, 1, 2)))
    return failure();
  Value x = node.in(0);
  bool ceilMode = node.integer("ceil_mode", 0);
  bool columnMajor = node.integer("storage_order", 0);
  auto w = poolWindow(node, x, ceilMode);
  if (!w)
    return failure();
  SmallVector<NamedAttribute> attributes = windowAttributes(node, *w);
  attributes.push_back(node.i64s("kernel", w->kernel));
  Value maxima = toChannelsFirst(
      node, node.make<MaxPoolOp>({toChannelsLast(node, x)}, attributes));
  if (node.wants(1) &&
      failed(node.set(1, maxPoolIndices(node, x, maxima, *w, columnMajor))))
    return failure();
  return node.set(maxima);
}

static LogicalResult avgPool(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  bool ceilMode = node.integer("ceil_mode", 0);
  bool countPads = node.opset >= 7 && node.integer("count_include_pad", 0);
  auto w = poolWindow(node, x, ceilMode);
  if (!w)
    return failure();
  SmallVector<NamedAttribute> attributes = windowAttributes(node, *w);
  attributes.push_back(node.i64s("kernel", w->kernel));
  if (countPads) {
    attributes.push_back(node.unit("count_include_pad"));
    if (w->declaredHigh != w->high)
      attributes.push_back(node.i64s("count_high", w->declaredHigh));
  }
  return node.set(toChannelsFirst(
      node, node.make<AvgPoolOp>({toChannelsLast(node, x)}, attributes)));
}

/// (sum |x|^p)^(1/p) of each window.
static LogicalResult lpPool(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  bool ceilMode = node.integer("ceil_mode", 0);
  // Before operator set 2 it was a float.
  double p = node.opset < 2 ? node.real("p", 2) : double(node.integer("p", 2));
  auto w = poolWindow(node, x, ceilMode);
  if (!w)
    return failure();
  if (p < 1)
    return node.error("p must be at least 1");
  // The mean over all places, of which those outside count as 0.
  double count = 1;
  for (int64_t size : w->kernel)
    count *= double(size);
  SmallVector<NamedAttribute> attributes = windowAttributes(node, *w);
  attributes.push_back(node.i64s("kernel", w->kernel));
  attributes.push_back(node.unit("count_include_pad"));
  auto power = [&](Value value, double exponent) {
    return value ? node.make<PowOp>(
                       {value, node.scalar(exponent, elementOf(value))})
                 : value;
  };
  Value powers = p == 1   ? node.make<AbsOp>({x})
                 : p == 2 ? node.mul(x, x)
                          : power(node.make<AbsOp>({x}), p);
  Value sums = node.mul(
      node.make<AvgPoolOp>({toChannelsLast(node, powers)}, attributes), count);
  Value y = p == 1   ? sums
            : p == 2 ? node.make<SqrtOp>({sums})
                     : power(sums, 1 / p);
  return node.set(toChannelsFirst(node, y));
}

template <bool max> static LogicalResult globalPool(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (rankOf(x) < 3)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected at least 3");
  Integers dims;
  for (int64_t dim = 2; dim < rankOf(x); ++dim)
    dims.push_back(dim);
  if (max)
    return node.set(node.reduce(x, ReduceKind::Max, dims, true));
  Value result = node.mean(x, dims, true);
  node.importer.noteMeanOfNothing(node.name, x, result);
  return node.set(result);
}

static LogicalResult globalLpPool(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  double p = node.opset < 2 ? node.real("p", 2) : double(node.integer("p", 2));
  if (rankOf(x) < 3 || p < 1)
    return node.error("expected an input of rank 3 at least, and p of 1 at "
                      "least");
  Integers dims;
  for (int64_t dim = 2; dim < rankOf(x); ++dim)
    dims.push_back(dim);
  Value powers =
      node.make<PowOp>({node.make<AbsOp>({x}), node.scalar(p, elementOf(x))});
  Value sum = node.reduce(powers, ReduceKind::Sum, dims, true);
  return node.set(node.make<PowOp>({sum, node.scalar(1 / p, elementOf(x))}));
}

/// In training mode, by the statistics of the batch; further outputs are the
/// running statistics, each moved towards those.
static LogicalResult batchNormOfBatch(Node &node, double epsilon,
                                      double momentum) {
  Value x = node.in(0);
  if (rankOf(x) < 2)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected at least 2");
  Integers others{0}, alongChannels(rankOf(x), 1);
  alongChannels[1] = shapeOf(x)[1];
  for (int64_t dim = 2; dim < rankOf(x); ++dim)
    others.push_back(dim);
  Type element = elementOf(x);
  Type wide = element.isF64() ? element : node.ops.getF32Type();
  for (int index = 1; index < 5; ++index)
    if (rankOf(node.in(index)) != 1 ||
        shapeOf(node.in(index))[0] != shapeOf(x)[1])
      return node.error("input " + Twine(index) + " must be a vector of " +
                        Twine(shapeOf(x)[1]) + " elements");
  auto vector = [&](int index) {
    return node.reshape(node.cast(node.in(index), wide), alongChannels);
  };
  node.importer.noteBatchStatistics();
  Value all = node.cast(x, wide);
  Value mean = node.mean(all, others, true);
  Value centred = node.sub(all, mean);
  Value variance = node.mean(node.mul(centred, centred), others, true);
  if (!variance)
    return node.fail();
  Value y = node.div(centred, node.make<SqrtOp>({node.add(variance, epsilon)}));
  y = node.add(node.mul(y, vector(1)), vector(2));
  Value statistics[] = {mean, variance};
  for (int index : {1, 2}) {
    if (!node.wants(index))
      continue;
    Value moved = node.add(node.mul(vector(index + 2), momentum),
                           node.mul(statistics[index - 1], 1 - momentum));
    moved = node.reshape(moved, {shapeOf(x)[1]});
    if (failed(
            node.set(index, node.cast(moved, elementOf(node.in(index + 2))))))
      return failure();
  }
  return node.set(node.cast(y, element));
}

/// The running statistics; in training autodiff replaces them by those of the
/// batch (`momentum` is the weight of the old ones).
static LogicalResult batchNorm(Node &node) {
  if (failed(node.arity(5, 5, 5)))
    return failure();
  Value x = node.in(0);
  double epsilon = node.real("epsilon", 1e-5f);
  double momentum = node.real("momentum", 0.9);
  (void)node.integerList("consumed_inputs");
  bool training = node.opset >= 14 && node.integer("training_mode", 0);
  if (node.opset < 9 && node.integer("spatial", 1) != 1)
    return node.unsupported("spatial=0 of operator BatchNormalization");
  if (node.opset < 7)
    (void)node.integer("is_test", 0);
  for (size_t index = 1; index < node.outputs.size(); ++index)
    training |= node.wants(index);
  if (training && node.opset >= 14 &&
      node.importer.trainingForms() == ImportOptions::TrainingForms::Refuse)
    return batchNormOfBatch(node, epsilon, momentum);
  if (training &&
      node.importer.trainingForms() == ImportOptions::TrainingForms::Refuse)
    return node.unsupported(
        "operator BatchNormalization in training mode",
        "the model was exported in training form: to run it, export it in "
        "inference form (model.eval() in PyTorch) or give option as-inference; "
        "training takes both forms");
  if (training && node.importer.trainingForms() ==
                      ImportOptions::TrainingForms::AsInference)
    node.importer.noteAsInference();
  if (rankOf(x) < 2)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected at least 2");
  SmallVector<Value> operands{rankOf(x) == 2 ? x : toChannelsLast(node, x)};
  for (int index = 1; index < 5; ++index) {
    Value vector = node.parameter(index);
    if (rankOf(vector) != 1 || shapeOf(vector)[0] != shapeOf(x)[1])
      return node.error("input " + Twine(index) + " must be a vector of " +
                        Twine(shapeOf(x)[1]) + " elements");
    operands.push_back(node.cast(vector, elementOf(x)));
  }
  Value result = node.make<BatchNormOp>(
      operands, {node.f64("epsilon", epsilon), node.f64("momentum", momentum)});
  // Further outputs are the running statistics after the step.
  for (size_t index : {1, 2})
    if (node.wants(index) && failed(node.set(index, node.in(index + 2))))
      return failure();
  return node.set(rankOf(x) == 2 ? result : toChannelsFirst(node, result));
}

static LogicalResult lrn(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  node.requireAttribute("size");
  double alpha = node.real("alpha", 1e-4f), beta = node.real("beta", 0.75);
  double bias = node.real("bias", 1);
  int64_t size = node.integer("size", 0);
  if (node.failed)
    return failure();
  if (size < 1 || size > (int64_t(1) << 31) || rankOf(x) < 3)
    return node.error("size is " + Twine(size) + " and rank " +
                      Twine(rankOf(x)) + ", expected at least 1 and 3");
  return node.set(toChannelsFirst(
      node,
      node.make<LRNOp>({toChannelsLast(node, x)},
                       {node.i64("size", size), node.f64("alpha", alpha),
                        node.f64("beta", beta), node.f64("bias", bias)})));
}

void kerf::onnx_import::addWindows(HandlerTable &table) {
  table.add("Conv", 1, conv);
  table.add("CausalConvWithState", 27, causalConvWithState);
  table.add("MaxPool", 1, maxPool);
  table.add("AveragePool", 1, avgPool);
  table.add("LpPool", 1, lpPool);
  table.add("GlobalLpPool", 1, globalLpPool);
  table.add("GlobalAveragePool", 1, globalPool<false>);
  table.add("GlobalMaxPool", 1, globalPool<true>);
  table.add("BatchNormalization", 1, batchNorm);
  table.add("LRN", 1, lrn);
}
