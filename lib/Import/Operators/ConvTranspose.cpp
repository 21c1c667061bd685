//===- ConvTranspose.cpp - transposed convolutions ------------------------===//
//
// A transposed convolution is the gradient of a convolution with respect to its
// image: nn.conv_input_gradient, with the weights as they are. What that op
// gives is the image of a convolution whose result is the operand; where
// output_padding makes the image larger than any window reads, zeros are put
// behind it.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Images.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// The largest size of a dimension: sums and products of a few such sizes stay
/// far from overflow.
static constexpr int64_t kMaxSize = int64_t(1) << 40;

namespace {
struct Window {
  Integers strides, dilations, low, high;
  Integers image;  ///< sizes that windows read
  Integers behind; ///< zeros behind them
};
} // namespace

static std::optional<Window> windowOf(Node &node, ArrayRef<int64_t> from,
                                      ArrayRef<int64_t> kernel) {
  size_t count = from.size();
  auto strides = perDimension(node, "strides", count, 1);
  auto dilations = perDimension(node, "dilations", count, 1);
  auto pads = perDimension(node, "pads", 2 * count, 0);
  auto added = perDimension(node, "output_padding", count, 0);
  auto sizes = node.integerList("output_shape");
  auto automatic = autoPadOf(node);
  if (!strides || !dilations || !pads || !added || !automatic || node.failed)
    return std::nullopt;
  if (sizes && sizes->size() == count + 2) // with batch and channels
    sizes->erase(sizes->begin(), sizes->begin() + 2);
  if (sizes && sizes->size() != count) {
    (void)node.error("output_shape has " + Twine(sizes->size()) +
                     " entries, expected " + Twine(count));
    return std::nullopt;
  }
  bool same =
      *automatic == AutoPad::SameUpper || *automatic == AutoPad::SameLower;
  Window w{*strides, *dilations, {}, {}, {}, {}};
  for (size_t d = 0; d < count; ++d) {
    int64_t s = w.strides[d], l = w.dilations[d], more = (*added)[d];
    if (s < 1 || l < 1 || more < 0 || kernel[d] < 1) {
      (void)node.error("strides, dilations and kernel must be positive and "
                       "output_padding not negative");
      return std::nullopt;
    }
    int64_t span, all;
    if (llvm::MulOverflow(l, kernel[d] - 1, span) ||
        llvm::MulOverflow(s, from[d] - 1, all) ||
        std::max(span, all) > kMaxSize) {
      (void)node.error("the result is too large: size " + Twine(from[d]) +
                       " with stride " + Twine(s) + ", dilation " + Twine(l) +
                       " and a kernel of " + Twine(kernel[d]));
      return std::nullopt;
    }
    span += 1;
    all += span;
    int64_t low = (*pads)[d], high = (*pads)[d + count];
    if (sizes || same) {
      int64_t size = sizes ? (*sizes)[d] : from[d] * s;
      int64_t total = std::max<int64_t>(0, all + more - size);
      std::tie(low, high) = splitPad(*automatic, total);
      more = size - (all - total);
    } else if (*automatic == AutoPad::Valid) {
      low = high = 0;
    }
    if (low < 0 || high < 0) {
      (void)node.unsupported("negative pads",
                             "Pad behind it and no pads are taken");
      return std::nullopt;
    }
    int64_t size = all + more - low - high;
    // What output_padding adds is what pads would take away, or what a stride
    // leaves over.
    int64_t read = std::max<int64_t>(0, high - more);
    int64_t image = std::min(size, all - low - read + s - 1);
    if (image < 1 || size > kMaxSize) {
      (void)node.error("size " + Twine(from[d]) + " becomes " + Twine(size));
      return std::nullopt;
    }
    w.low.push_back(low);
    w.high.push_back(read);
    w.image.push_back(image);
    w.behind.push_back(size - image);
  }
  return w;
}

static LogicalResult convTranspose(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  Value x = node.in(0);
  Value weights = node.parameter(1);
  if (!isImage(node, x))
    return failure();
  if (elementOf(x).isF64())
    return node.unsupported("operator ConvTranspose of float64",
                            "float32, float16 and bfloat16 are taken");
  if (rankOf(weights) != rankOf(x) || elementOf(weights) != elementOf(x))
    return node.error("weights must have the rank and the type of the input");
  Integers kernel(shapeOf(weights).drop_front(2));
  if (auto declared = node.integerList("kernel_shape");
      declared && *declared != kernel)
    return node.error("kernel_shape contradicts the weights");
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || shapeOf(weights)[0] != shapeOf(x)[1] ||
      shapeOf(x)[1] % groups)
    return node.error("input has " + Twine(shapeOf(x)[1]) +
                      " channels, weights " + Twine(shapeOf(weights)[0]) +
                      ", which do not fit group " + Twine(groups));
  auto w = windowOf(node, shapeOf(x).drop_front(2), kernel);
  if (!w)
    return failure();
  if (typeOf(x).getNumElements() == 0 || typeOf(weights).getNumElements() == 0)
    return node.error("an empty input cannot be convolved");
  Integers shape{shapeOf(x)[0]};
  llvm::append_range(shape, w->image);
  shape.push_back(shapeOf(weights)[1] * groups);
  Value result = node.makeTyped(
      ConvInputGradientOp::getOperationName(), typeOf(x).clone(shape),
      {toChannelsLast(node, x), weights},
      {node.i64s("strides", w->strides), node.i64s("low", w->low),
       node.i64s("high", w->high), node.i64s("dilations", w->dilations),
       node.i64("groups", groups)});
  if (result &&
      llvm::any_of(w->behind, [](int64_t size) { return size > 0; })) {
    Integers low(shape.size(), 0), high{0};
    llvm::append_range(high, w->behind);
    high.push_back(0);
    result = node.make<PadOp>(
        {result},
        {node.i64s("low", low), node.i64s("high", high),
         node.ops.getNamedAttr("value", node.number(0, elementOf(x)))});
  }
  if (failed(addBias(node, result, shape.back())))
    return failure();
  return node.set(toChannelsFirst(node, result));
}

void kerf::onnx_import::addConvTranspose(HandlerTable &table) {
  table.add("ConvTranspose", 1, convTranspose);
}
