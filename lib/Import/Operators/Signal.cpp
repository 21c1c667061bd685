//===- Signal.cpp - spectra and what they are made with -------------------===//
//
// A discrete Fourier transform is a product with a matrix of cosines and sines,
// computed in double here: O(n^2) operations for n samples, at the speed of a
// matrix product, which for the frames of audio (a few hundred samples) is what
// libraries' FFTs gain little over. Windows and mel filters are constants.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

static constexpr double kPi = 3.14159265358979323846;

/// A constant of these numbers, rounded to the type.
static Value numbers(Node &node, ArrayRef<int64_t> shape,
                     ArrayRef<double> values, Type element) {
  SmallVector<Attribute> attributes;
  attributes.reserve(values.size());
  for (double value : values)
    attributes.push_back(node.number(value, element));
  return node.constant(DenseElementsAttr::get(
      RankedTensorType::get(shape, element), attributes));
}

namespace {
struct Transform {
  int64_t length;
  bool inverse, onesided;
};
} // namespace

/// The transform of dimension rank - 2 of `x`, whose last one has real and, if
/// it is 2, imaginary parts.
static Value transform(Node &node, Value x, Transform t) {
  if (!x)
    return {};
  Type element = elementOf(x);
  int64_t rank = rankOf(x), parts = shapeOf(x)[rank - 1];
  bool toReal = t.inverse && t.onesided;
  int64_t outputs = t.onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  int64_t inputs =
      std::min(shapeOf(x)[rank - 2], toReal ? t.length / 2 + 1 : t.length);
  int64_t outputParts = toReal ? 1 : 2;
  constexpr int64_t kMaxElements = int64_t(1) << 26;
  if (outputs < 1 || inputs * parts * outputs * outputParts > kMaxElements) {
    (void)node.unsupported("a transform of " + Twine(t.length) +
                               " samples of operator " + node.proto.op_type(),
                           "up to a few thousand are taken");
    return {};
  }
  x = node.slice(x, rank - 2, 0, inputs);
  // Rows: sample and part; columns: frequency and part.
  std::vector<double> matrix(inputs * parts * outputs * outputParts);
  double sign = t.inverse ? 1 : -1;
  double *at = matrix.data();
  for (int64_t i = 0; i < inputs; ++i)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t o = 0; o < outputs; ++o) {
        double angle = 2 * kPi * double(i * o % t.length) / double(t.length);
        double cosine = std::cos(angle), sine = sign * std::sin(angle);
        double scale = t.inverse ? 1 / double(t.length) : 1;
        // The other half of the spectrum is the conjugate of this one.
        if (toReal && i > 0 && 2 * i != t.length)
          scale *= 2;
        *at++ = scale * (part == 0 ? cosine : -sine);
        if (outputParts == 2)
          *at++ = scale * (part == 0 ? sine : cosine);
      }
  Integers flat(shapeOf(x).drop_back(2));
  flat.push_back(inputs * parts);
  Value y = node.matmul(
      node.reshape(x, flat),
      numbers(node, {inputs * parts, outputs * outputParts}, matrix, element));
  Integers shape(shapeOf(x).drop_back(2));
  shape.append({outputs, outputParts});
  return node.reshape(y, shape);
}

/// Whether a tensor has samples of one or two parts; reports otherwise.
static bool hasParts(Node &node, Value x) {
  if (isa<FloatType>(elementOf(x)) && rankOf(x) >= 2 &&
      (shapeOf(x).back() == 1 || shapeOf(x).back() == 2))
    return true;
  (void)node.error("the signal must be floats whose last dimension is 1 (real) "
                   "or 2 (complex)");
  return false;
}

static LogicalResult dft(Node &node) {
  bool byInput = node.opset >= 20;
  if (failed(node.arity(1, byInput ? 3 : 2)))
    return failure();
  Value x = node.in(0);
  Transform t{0, bool(node.integer("inverse", 0)),
              bool(node.integer("onesided", 0))};
  int64_t axis = byInput ? -2 : node.integer("axis", 1);
  if (byInput && node.has(2)) {
    auto given = node.constantIntegers(2);
    if (!given)
      return failure();
    if (given->size() != 1)
      return node.error("axis has " + Twine(given->size()) +
                        " elements, expected 1");
    axis = given->front();
  }
  auto within = node.axisWithin(axis, rankOf(x));
  if (!within || !hasParts(node, x))
    return failure();
  if (*within == rankOf(x) - 1)
    return node.error("axis is the dimension of real and imaginary parts");
  t.length = t.inverse && t.onesided ? 2 * (shapeOf(x)[*within] - 1)
                                     : shapeOf(x)[*within];
  if (node.has(1)) {
    auto given = node.constantIntegers(1);
    if (!given)
      return failure();
    if (given->size() != 1 || given->front() < 1)
      return node.error("dft_length must be a positive number");
    t.length = given->front();
  }
  Integers perm;
  for (int64_t dim = 0; dim + 1 < rankOf(x); ++dim)
    if (dim != *within)
      perm.push_back(dim);
  perm.append({*within, rankOf(x) - 1});
  Integers back(perm.size());
  for (auto [to, from] : llvm::enumerate(perm))
    back[from] = static_cast<int64_t>(to);
  Value y = transform(node, node.transpose(x, perm), t);
  return y ? node.set(node.transpose(y, back)) : node.fail();
}

static LogicalResult stft(Node &node) {
  if (failed(node.arity(2, 4)))
    return failure();
  Value x = node.in(0), window = node.in(2);
  bool onesided = node.integer("onesided", 1);
  auto step = node.constantIntegers(1);
  if (!step || !hasParts(node, x))
    return failure();
  int64_t length = window ? typeOf(window).getNumElements() : shapeOf(x)[1];
  if (node.has(3)) {
    auto given = node.constantIntegers(3);
    if (!given || given->size() != 1)
      return node.failed ? failure() : node.error("frame_length is no number");
    length = given->front();
  }
  if (rankOf(x) != 3 || step->size() != 1 || step->front() < 1 || length < 1 ||
      length > shapeOf(x)[1] ||
      (window && shapeOf(window) != ArrayRef<int64_t>({length})))
    return node.error("frames of " + Twine(length) + " samples do not fit " +
                      "the signal, the window and a positive frame_step");
  int64_t frames = 1 + (shapeOf(x)[1] - length) / step->front();
  Type i64 = node.ops.getI64Type();
  Value begins = node.reshape(node.iota(frames, i64), {frames, 1});
  begins = node.mul(begins, double(step->front()));
  Value framed = node.gather(x, node.add(begins, node.iota(length, i64)), 1);
  if (window)
    framed = node.mul(
        framed, node.reshape(node.cast(window, elementOf(x)), {length, 1}));
  Value y = transform(node, framed, {length, false, onesided});
  return y ? node.set(y) : node.fail();
}

/// The type that attribute `output_datatype` names.
static Type outputType(Node &node) {
  Type type = elementType(node.context, node.integer("output_datatype", 1));
  if (!type)
    (void)node.unsupported("type of attribute output_datatype of operator " +
                           node.proto.op_type());
  return type;
}

/// sum_j (-1)^j terms[j] cos(2 pi j n / N)
template <typename... Terms>
static LogicalResult cosineWindow(Node &node, Terms... terms) {
  if (failed(node.arity(1, 1)))
    return failure();
  auto size = node.constantIntegers(0);
  bool periodic = node.integer("periodic", 1);
  Type element = outputType(node);
  if (!size || !element)
    return failure();
  if (size->size() != 1 || size->front() < 0 || size->front() > (1 << 24))
    return node.error("size must be a number from 0 to 2^24");
  const double factors[] = {terms...};
  int64_t count = size->front();
  auto whole = double(periodic ? count : count - 1);
  SmallVector<double> values;
  for (int64_t n = 0; n < count; ++n) {
    double value = 0, sign = 1;
    for (auto [j, factor] : llvm::enumerate(factors)) {
      value +=
          sign * factor * std::cos(2 * kPi * double(j) * double(n) / whole);
      sign = -sign;
    }
    values.push_back(value);
  }
  return node.set(numbers(node, {count}, values, element));
}

static LogicalResult hann(Node &node) { return cosineWindow(node, 0.5, 0.5); }
static LogicalResult hamming(Node &node) {
  return cosineWindow(node, 25.0 / 46, 21.0 / 46);
}
static LogicalResult blackman(Node &node) {
  return cosineWindow(node, 0.42, 0.5, 0.08);
}

/// Triangles over the bins of a spectrum, evenly spaced in mel.
static LogicalResult melWeightMatrix(Node &node) {
  if (failed(node.arity(5, 5)))
    return failure();
  Type element = outputType(node);
  SmallVector<double> given;
  for (size_t index = 0; index < 5; ++index) {
    auto number = node.constantReal(index);
    if (!number)
      return failure();
    given.push_back(*number);
  }
  if (!element)
    return failure();
  double mels = given[0], length = given[1], rate = given[2];
  if (!(mels >= 1 && length >= 1 && rate >= 1 && mels <= 4096 &&
        length <= (1 << 20) && given[3] >= 0 && given[4] > given[3] &&
        given[4] <= rate / 2))
    return node.error("expected positive sizes and edges 0 <= lower < upper <= "
                      "sample_rate / 2");
  auto bins = static_cast<int64_t>(mels);
  int64_t spectrum = static_cast<int64_t>(length) / 2 + 1;
  auto toMel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double low = toMel(given[3]), high = toMel(given[4]);
  SmallVector<int64_t> edges; // of triangles, in bins of the spectrum
  for (int64_t edge = 0; edge < bins + 2; ++edge) {
    double mel = low + double(edge) * (high - low) / double(bins + 2);
    double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    edges.push_back(std::min(
        spectrum - 1, static_cast<int64_t>((length + 1) * hertz / rate)));
  }
  std::vector<double> matrix(spectrum * bins);
  for (int64_t bin = 0; bin < bins; ++bin) {
    int64_t left = edges[bin], center = edges[bin + 1], right = edges[bin + 2];
    if (left == center)
      matrix[center * bins + bin] = 1;
    for (int64_t at = left; at <= center && left < center; ++at)
      matrix[at * bins + bin] = double(at - left) / double(center - left);
    for (int64_t at = center; at < right; ++at)
      matrix[at * bins + bin] = double(right - at) / double(right - center);
  }
  return node.set(numbers(node, {spectrum, bins}, matrix, element));
}

void kerf::onnx_import::addSignal(HandlerTable &table) {
  table.add("DFT", 17, dft);
  table.add("STFT", 17, stft);
  table.add("HannWindow", 17, hann);
  table.add("HammingWindow", 17, hamming);
  table.add("BlackmanWindow", 17, blackman);
  table.add("MelWeightMatrix", 17, melWeightMatrix);
}
