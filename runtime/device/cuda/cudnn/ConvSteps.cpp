//===- ConvSteps.cpp - a convolution as steps that cuDNN can do -----------===//
#include "ConvSteps.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
bool isHalf(kerf_dtype_t dtype) { return dtypeSize(dtype) == 2; }

int64_t extent(const DnnTensor &t) {
  int64_t last = 1;
  for (size_t d = 0; d < t.dims.size(); ++d)
    last += (t.dims[d] - 1) * t.strides[d];
  return last;
}

/// Channels of a long row: a power of two, so that every piece is aligned.
constexpr int64_t rowChannels = 1024, longRow = int64_t(1) << 16;

/// The pieces in which a row is converted, as first element and count: a
/// multiple of rowChannels, and the rest, which is never a single element.
std::vector<std::pair<int64_t, int64_t>> castPieces(int64_t elements) {
  int64_t left = elements % rowChannels;
  if (elements < longRow || left == 0)
    return {{0, elements}};
  left += left == 1 ? rowChannels : 0;
  return {{0, elements - left}, {elements - left, left}};
}

/// Numbers of a graph's tensors: places, and these.
constexpr int64_t inPlace = 20, firstVirtual = 30;

/// Descriptors of one graph.
class GraphBuilder {
public:
  GraphBuilder(const DnnTarget &target, const LibraryDesc &desc)
      : target(target), library(target.library), desc(desc) {}

  std::vector<DnnDescriptor> parts;
  std::vector<dnn::Descriptor> operations;

  /// Positions in `parts`, here and below.
  size_t tensor(int64_t id, const DnnTensor &t, int type, int64_t alignment,
                bool isVirtual = false) {
    DnnDescriptor h(library, dnn::TensorDescriptor);
    h.setInt(dnn::TensorUniqueId, id);
    h.setEnum(dnn::TensorDataType, dnn::TypeDataType, type);
    h.setInt(dnn::TensorByteAlignment, alignment);
    h.setInts(dnn::TensorDimensions, t.dims);
    h.setInts(dnn::TensorStrides, t.strides);
    if (isVirtual) {
      bool yes = true;
      h.set(dnn::TensorIsVirtual, dnn::TypeBoolean, &yes);
    }
    h.finalize("a tensor");
    return keep(std::move(h));
  }

  /// `b` negative: none.
  void point(int mode, int precision, size_t x, int64_t b, size_t y) {
    DnnDescriptor d(library, dnn::PointwiseDescriptor);
    d.setEnum(dnn::PointwiseMode, dnn::TypePointwiseMode, mode);
    d.setEnum(dnn::PointwiseMathPrecision, dnn::TypeDataType, precision);
    d.finalize("a pointwise operation");
    DnnDescriptor op(library, dnn::PointwiseOperationDescriptor);
    op.setHandle(dnn::PointwiseOperationDesc, d);
    op.setHandle(dnn::PointwiseX, parts[x]);
    op.setHandle(dnn::PointwiseY, parts[y]);
    if (b >= 0)
      op.setHandle(dnn::PointwiseB, parts[static_cast<size_t>(b)]);
    keep(std::move(d));
    operation(std::move(op), "a pointwise operation");
  }

  void pool(const ConvPlan &conv, size_t x, size_t y) {
    DnnDescriptor d(library, dnn::ResampleDescriptor);
    bool max = desc.algorithm == "max";
    d.setEnum(dnn::ResampleMode, dnn::TypeResampleMode,
              max ? dnn::ResampleMax
              : desc.algorithm == "avg_include_padding"
                  ? dnn::ResampleAverageIncludePadding
                  : dnn::ResampleAverageExcludePadding);
    d.setEnum(dnn::ResampleCompType, dnn::TypeDataType, computeType());
    d.setEnum(dnn::ResamplePaddingMode, dnn::TypePaddingMode,
              max ? dnn::NegInfPadding : dnn::ZeroPadding);
    d.setInt(dnn::ResampleSpatialDims, static_cast<int64_t>(conv.pre.size()));
    d.setInts(dnn::ResampleWindowDims, conv.window);
    d.setInts(dnn::ResamplePrePaddings, conv.pre);
    d.setInts(dnn::ResamplePostPaddings, conv.post);
    d.setInts(dnn::ResampleStrides, conv.strides);
    d.finalize("a pool");
    DnnDescriptor op(library, dnn::ResampleForwardDescriptor);
    op.setHandle(dnn::ResampleForwardX, parts[x]);
    op.setHandle(dnn::ResampleForwardY, parts[y]);
    op.setHandle(dnn::ResampleForwardDesc, d);
    keep(std::move(d));
    operation(std::move(op), "a pool");
  }

  void convolution(const ConvPlan &conv, size_t x, size_t w, size_t y) {
    DnnDescriptor d(library, dnn::ConvolutionDescriptor);
    d.setEnum(dnn::ConvolutionCompType, dnn::TypeDataType, computeType());
    d.setEnum(dnn::ConvolutionMode, dnn::TypeConvolutionMode,
              dnn::CrossCorrelation);
    d.setInt(dnn::ConvolutionSpatialDims,
             static_cast<int64_t>(conv.pre.size()));
    d.setInts(dnn::ConvolutionDilations, conv.dilations);
    d.setInts(dnn::ConvolutionFilterStrides, conv.strides);
    d.setInts(dnn::ConvolutionPrePaddings, conv.pre);
    d.setInts(dnn::ConvolutionPostPaddings, conv.post);
    d.finalize("a convolution");
    static constexpr struct {
      LibraryDesc::Kind kind;
      int type, alpha, beta, conv, w, x, y;
    } forms[] = {
        {LibraryDesc::Conv, dnn::ConvolutionForwardDescriptor,
         dnn::ForwardAlpha, dnn::ForwardBeta, dnn::ForwardConvDesc,
         dnn::ForwardW, dnn::ForwardX, dnn::ForwardY},
        {LibraryDesc::ConvInputGradient, dnn::ConvolutionBackwardDataDescriptor,
         dnn::BackwardDataAlpha, dnn::BackwardDataBeta,
         dnn::BackwardDataConvDesc, dnn::BackwardDataW, dnn::BackwardDataDx,
         dnn::BackwardDataDy},
        {LibraryDesc::ConvWeightGradient,
         dnn::ConvolutionBackwardFilterDescriptor, dnn::BackwardFilterAlpha,
         dnn::BackwardFilterBeta, dnn::BackwardFilterConvDesc,
         dnn::BackwardFilterDw, dnn::BackwardFilterX, dnn::BackwardFilterDy}};
    for (const auto &form : forms) {
      if (form.kind != desc.kind)
        continue;
      DnnDescriptor op(library, form.type);
      op.setHandle(form.conv, d);
      op.setHandle(form.w, parts[w]);
      op.setHandle(form.x, parts[x]);
      op.setHandle(form.y, parts[y]);
      if (desc.dtype == KERF_F64) {
        double one = 1, zero = 0;
        op.set(form.alpha, dnn::TypeDouble, &one);
        op.set(form.beta, dnn::TypeDouble, &zero);
      } else {
        float one = 1, zero = 0;
        op.set(form.alpha, dnn::TypeFloat, &one);
        op.set(form.beta, dnn::TypeFloat, &zero);
      }
      operation(std::move(op), "a convolution");
    }
    keep(std::move(d));
  }

  int computeType() const {
    return desc.dtype == KERF_F64 ? dnn::Double : dnn::Float;
  }

  bool finish() {
    auto graph = makeDnnGraph(target, operations);
    if (graph)
      keep(std::move(*graph));
    return graph.has_value();
  }

private:
  size_t keep(DnnDescriptor part) {
    parts.push_back(std::move(part));
    return parts.size() - 1;
  }
  void operation(DnnDescriptor op, const char *what) {
    op.finalize(what);
    operations.push_back(op.get());
    keep(std::move(op));
  }

  const DnnTarget &target;
  const Cudnn &library;
  const LibraryDesc &desc;
};

/// What follows the convolution.
struct Point {
  int mode;
  const Operand *operand = nullptr;
  ConvPlace place{};
  DnnTensor layout{};
};

class Describer {
public:
  Describer(const DnnTarget &target, const LibraryDesc &desc,
            const ConvPlan &conv, ConvForm form, bool tf32)
      : target(target), desc(desc), conv(conv), form(form), tf32(tf32),
        type(form.wide ? KERF_F32 : desc.dtype) {}

  std::optional<ConvSteps> run() {
    bool inputGradient = desc.kind == LibraryDesc::ConvInputGradient,
         weightGradient = desc.kind == LibraryDesc::ConvWeightGradient;
    if (weightGradient && !runWeightGradient())
      return std::nullopt;
    if (weightGradient)
      return finish();
    ConvPlace in = inputGradient ? ConvPlace::Result : ConvPlace::Image,
              out = inputGradient ? ConvPlace::Image : ConvPlace::Result;
    ConvPlace x = wideImage(in);
    ConvPlace w =
        desc.kind == LibraryDesc::Pool ? ConvPlace::Weights : readyWeights();
    // A wide convolution gives f32; the steps behind it convert.
    bool narrows = form.wide && desc.dstDtype != KERF_F32;
    ConvPlace y = narrows ? wideOf(out) : out;
    ConvPlace image = inputGradient ? y : x, result = inputGradient ? x : y;
    std::vector<Point> points = pointsOfCall();
    if (!addMain(image, w, result, y, narrows ? KERF_F32 : desc.dstDtype,
                 form.fused ? points : std::vector<Point>{}))
      return std::nullopt;
    if (form.fused)
      points.clear();
    if (narrows && points.empty())
      points.push_back({dnn::PointwiseIdentity});
    if (!points.empty() && !addPoints(y, out, points))
      return std::nullopt;
    return finish();
  }

private:
  static ConvPlace wideOf(ConvPlace place) {
    return place == ConvPlace::Image ? ConvPlace::WideImage
                                     : ConvPlace::WideResult;
  }
  const DnnTensor &layoutOf(ConvPlace place) const {
    switch (place) {
    case ConvPlace::Image:
    case ConvPlace::WideImage:
      return conv.image;
    case ConvPlace::StoredWeights:
    case ConvPlace::WideStoredWeights:
      return conv.storedWeights;
    case ConvPlace::Weights:
    case ConvPlace::WideWeights:
      return conv.weights;
    case ConvPlace::Added:
      return conv.addedTensor;
    default:
      return conv.result;
    }
  }
  kerf_dtype_t typeOf(ConvPlace place) const {
    switch (place) {
    case ConvPlace::Image:
      return desc.kind == LibraryDesc::ConvInputGradient ? desc.dstDtype
                                                         : desc.dtype;
    case ConvPlace::Result:
      return desc.kind == LibraryDesc::Conv || desc.kind == LibraryDesc::Pool
                 ? desc.dstDtype
                 : desc.dtype;
    case ConvPlace::StoredWeights:
    case ConvPlace::Weights:
      return desc.kind == LibraryDesc::ConvWeightGradient ? desc.dstDtype
                                                          : desc.dtype;
    case ConvPlace::Bias:
    case ConvPlace::Added:
      return desc.dstDtype;
    default:
      return KERF_F32;
    }
  }
  const Operand *operandOf(ConvPlace place) const {
    switch (place) {
    case ConvPlace::Image:
      return conv.imageOperand;
    case ConvPlace::Result:
      return conv.resultOperand;
    case ConvPlace::StoredWeights:
      return conv.weightsOperand;
    case ConvPlace::Bias:
      return conv.bias;
    case ConvPlace::Added:
      return conv.added;
    default:
      return nullptr;
    }
  }
  /// Buffers begin at multiples of at least 16 bytes, views anywhere in them.
  int64_t alignmentOf(ConvPlace place) const {
    const Operand *operand = operandOf(place);
    int64_t bytes =
        16 | (operand ? operand->offset * dtypeSize(typeOf(place)) : 0);
    return bytes & -bytes;
  }

  void use(ConvPlace place) {
    int64_t elements =
        place == ConvPlace::Bias ? desc.outChannels : extent(layoutOf(place));
    all.bytes[place] = elements * dtypeSize(typeOf(place));
  }
  void addCast(ConvPlace from, ConvPlace to, bool ofWeights) {
    use(from);
    use(to);
    for (auto [first, elements] : castPieces(extent(layoutOf(from)))) {
      ConvStep step;
      step.kind = ConvStep::Cast;
      step.ofWeights = ofWeights;
      step.from = from;
      step.to = to;
      step.fromType = typeOf(from);
      step.toType = typeOf(to);
      step.first = first;
      step.elements = elements;
      step.alignment = std::min(alignmentOf(from), alignmentOf(to));
      all.steps.push_back(std::move(step));
    }
  }
  void addReorder(ConvPlace from, ConvPlace to, bool ofWeights) {
    use(from);
    use(to);
    ConvStep step;
    step.kind = ConvStep::Reorder;
    step.ofWeights = ofWeights;
    step.from = from;
    step.to = to;
    step.fromType = step.toType = typeOf(from);
    all.steps.push_back(std::move(step));
  }

  ConvPlace wideImage(ConvPlace in) {
    if (!form.wide)
      return in;
    addCast(in, wideOf(in), false);
    return wideOf(in);
  }

  /// cuDNN reorders f32, f64 and f16. bf16 is reordered as f32: read as f16,
  /// which is as wide, numbers above 2^121 would be NaNs and lose their bits.
  bool reordersInF32() const {
    return conv.reorders && typeOf(ConvPlace::Weights) == KERF_BF16;
  }

  ConvPlace readyWeights() {
    ConvPlace now = ConvPlace::StoredWeights;
    bool inF32 = form.wide || reordersInF32();
    auto cast = [&](ConvPlace to) {
      addCast(now, to, true);
      now = to;
    };
    if (inF32)
      cast(ConvPlace::WideStoredWeights);
    if (conv.reorders) {
      ConvPlace to = inF32 ? ConvPlace::WideWeights : ConvPlace::Weights;
      addReorder(now, to, true);
      now = to;
    }
    if (inF32 && !form.wide)
      cast(ConvPlace::Weights);
    return now;
  }

  bool runWeightGradient() {
    ConvPlace x = wideImage(ConvPlace::Image),
              dy = wideImage(ConvPlace::Result);
    bool narrows = form.wide && desc.dstDtype != KERF_F32;
    ConvPlace w = narrows         ? ConvPlace::WideWeights
                  : conv.reorders ? ConvPlace::Weights
                                  : ConvPlace::StoredWeights;
    if (!addMain(x, w, dy, w, narrows ? KERF_F32 : desc.dstDtype, {}))
      return false;
    bool inF32 = narrows || reordersInF32();
    if (inF32 && !narrows) {
      addCast(w, ConvPlace::WideWeights, false);
      w = ConvPlace::WideWeights;
    }
    if (conv.reorders) {
      ConvPlace to =
          inF32 ? ConvPlace::WideStoredWeights : ConvPlace::StoredWeights;
      addReorder(w, to, false);
      w = to;
    }
    if (inF32)
      addCast(w, ConvPlace::StoredWeights, false);
    return true;
  }

  std::vector<Point> pointsOfCall() const {
    std::vector<Point> points;
    if (conv.bias) {
      DnnTensor b{Shape(conv.result.dims.size(), 1),
                  Shape(conv.result.dims.size(), desc.outChannels)};
      b.dims[1] = desc.outChannels;
      b.strides[1] = 1;
      points.push_back({dnn::PointwiseAdd, conv.bias, ConvPlace::Bias, b});
    }
    if (conv.added)
      points.push_back(
          {dnn::PointwiseAdd, conv.added, ConvPlace::Added, conv.addedTensor});
    if (conv.relu)
      points.push_back({dnn::PointwiseReluForward});
    return points;
  }

  size_t stored(GraphBuilder &b, ConvStep &step, ConvPlace place,
                const DnnTensor &layout, int64_t id = 0) {
    use(place);
    id = id ? id : static_cast<int64_t>(place);
    step.bound.push_back({id, place});
    return b.tensor(id, layout, dnnType(typeOf(place)), alignmentOf(place));
  }

  /// `points` on tensor `x` of the graph; the last one writes `y`.
  void addPointsTo(GraphBuilder &b, ConvStep &step,
                   const std::vector<Point> &points, size_t x, size_t y,
                   const DnnTensor &layout) {
    for (size_t i = 0; i < points.size(); ++i) {
      int64_t other = -1;
      if (points[i].operand)
        other = static_cast<int64_t>(
            stored(b, step, points[i].place, points[i].layout));
      size_t next = i + 1 == points.size()
                        ? y
                        : b.tensor(firstVirtual + 1 + static_cast<int64_t>(i),
                                   layout, b.computeType(), 16, true);
      b.point(points[i].mode, b.computeType(), x, other, next);
      x = next;
    }
  }

  /// The convolution, pool or gradient, and `points`; `out`, one of the three
  /// places, gets the result.
  bool addMain(ConvPlace image, ConvPlace w, ConvPlace result, ConvPlace out,
               kerf_dtype_t outType, std::vector<Point> points) {
    ConvStep step;
    step.name = points.empty() ? "m" : "mp";
    bool pool = desc.kind == LibraryDesc::Pool;
    if (type != outType && !pool)
      points.push_back({dnn::PointwiseIdentity});
    if (!pool)
      step.refused = inexactNotes;
    if (type == KERF_F32 && !pool && !form.wide && !tf32)
      step.refused |= tf32Notes;
    if (isHalf(type) && !pool)
      step.refused |= transformNotes;
    GraphBuilder b(target, desc);
    size_t stores = 0;
    auto add = [&](ConvPlace place) {
      size_t at = stored(b, step, place, layoutOf(place));
      if (place != out || points.empty())
        return at;
      stores = at;
      return b.tensor(firstVirtual, layoutOf(place), b.computeType(), 16, true);
    };
    size_t x = add(image), y = add(result);
    if (pool) {
      b.pool(conv, x, y);
    } else {
      size_t weights = add(w);
      b.convolution(conv, x, weights, y);
      size_t computed = out == w ? weights : out == image ? x : y;
      addPointsTo(b, step, points, computed, stores, layoutOf(out));
    }
    return addStep(b, step);
  }

  /// `points` alone, from `x` to `y`, which may be the same.
  bool addPoints(ConvPlace x, ConvPlace y, std::vector<Point> points) {
    ConvStep step;
    step.name = "p";
    DnnTensor layout = conv.result;
    if (desc.kind == LibraryDesc::ConvInputGradient)
      layout = conv.image;
    // cuDNN needs more than one channel. If there is only one, the pixels
    // become the channels.
    if (layout.dims[1] == 1 && isDense(layout) &&
        (!conv.added || conv.addedTensor.strides == layout.strides)) {
      layout = dnnRow(numElements(layout.dims));
      for (Point &point : points)
        if (point.operand)
          point.layout = point.place == ConvPlace::Bias
                             ? DnnTensor{{1, 1, 1, 1}, {1, 1, 1, 1}}
                             : layout;
    }
    GraphBuilder b(target, desc);
    size_t from = stored(b, step, x, layout);
    size_t to = stored(b, step, y, layout, x == y ? inPlace : 0);
    addPointsTo(b, step, points, from, to, layout);
    return addStep(b, step);
  }
  static bool isDense(const DnnTensor &t) {
    return extent(t) == numElements(t.dims);
  }

  bool addStep(GraphBuilder &b, ConvStep &step) {
    if (!b.finish())
      return false;
    step.parts = std::move(b.parts);
    if (form.wide)
      step.name = "w" + step.name;
    for (auto [id, place] : step.bound)
      if (alignmentOf(place) != 16)
        step.name += cat(" a", id, ".", alignmentOf(place));
    all.steps.push_back(std::move(step));
    return true;
  }
  ConvSteps finish() { return std::move(all); }

  const DnnTarget &target;
  const LibraryDesc &desc;
  const ConvPlan &conv;
  ConvForm form;
  bool tf32;
  kerf_dtype_t type; ///< of what the convolution reads
  ConvSteps all;
};
} // namespace

std::vector<ConvForm> kerf::rt::convForms(const LibraryDesc &desc,
                                          const ConvPlan &conv) {
  bool points = conv.bias || conv.added || conv.relu;
  std::vector<ConvForm> forms;
  for (bool wide : {false, true}) {
    if (wide && (!isHalf(desc.dtype) || desc.kind == LibraryDesc::Pool))
      continue;
    for (bool fallback : {false, true}) {
      if (points)
        forms.push_back({true, wide, fallback});
      forms.push_back({false, wide, fallback});
    }
  }
  return forms;
}

std::optional<ConvSteps> kerf::rt::describeConv(const DnnTarget &target,
                                                const LibraryDesc &desc,
                                                const ConvPlan &conv,
                                                ConvForm form, bool tf32) {
  return Describer(target, desc, conv, form, tf32).run();
}

DnnTensor kerf::rt::dnnRow(int64_t elements) {
  int64_t channels = elements;
  if (elements >= longRow)
    for (channels = rowChannels; elements % channels != 0;)
      --channels;
  if (channels == 1)
    channels = elements; // a large prime number
  return {{1, channels, elements / channels, 1},
          {elements, 1, channels, channels}};
}

std::vector<DnnDescriptor>
kerf::rt::describeCast(const DnnTarget &target, int64_t elements,
                       kerf_dtype_t from, kerf_dtype_t to, int64_t alignment) {
  LibraryDesc none;
  GraphBuilder b(target, none);
  DnnTensor row = dnnRow(elements);
  size_t x = b.tensor(1, row, dnnType(from), alignment);
  size_t y = b.tensor(2, row, dnnType(to), alignment);
  b.point(dnn::PointwiseIdentity, dnn::Float, x, -1, y);
  return b.finish() ? std::move(b.parts) : std::vector<DnnDescriptor>{};
}
