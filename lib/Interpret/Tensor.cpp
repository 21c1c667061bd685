//===- Tensor.cpp - a tensor of the interpreter ---------------------------===//
#include "kerf/Interpret/Tensor.h"

#include "NarrowNumbers.h"
#include "kerf/Support/NarrowTypes.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

Tensor::Tensor(ArrayRef<int64_t> shape, double fill) : shape(shape) {
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  data.assign(size, fill);
}

int64_t Tensor::offset(ArrayRef<int64_t> index) const {
  int64_t result = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    result = result * shape[dim] + index[dim];
  return result;
}

bool Tensor::contains(ArrayRef<int64_t> index) const {
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (index[dim] < 0 || index[dim] >= shape[dim])
      return false;
  return true;
}

double Tensor::broadcastAt(ArrayRef<int64_t> index) const {
  ArrayRef<int64_t> last = index.take_back(shape.size());
  int64_t result = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    result = result * shape[dim] + (shape[dim] == 1 ? 0 : last[dim]);
  return data[result];
}

void kerf::interpret::forEachIndex(
    ArrayRef<int64_t> shape,
    llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(shape, 0))
    return;
  Index index(shape.size(), 0);
  while (true) {
    visit(index);
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

Tensor kerf::interpret::fromElements(DenseElementsAttr elements) {
  Tensor result(elements.getType().getShape());
  size_t next = 0;
  if (isa<FloatType>(elements.getElementType())) {
    for (const APFloat &value : elements.getValues<APFloat>()) {
      APFloat wide = value;
      bool lossy;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      result.data[next++] = wide.convertToDouble();
    }
  } else {
    Type element = elements.getElementType();
    bool isUnsigned = element.isInteger(1) || element.isUnsignedInteger();
    for (const APInt &value : elements.getValues<APInt>())
      result.data[next++] = isUnsigned
                                ? static_cast<double>(value.getZExtValue())
                                : static_cast<double>(value.getSExtValue());
  }
  return result;
}

static double halfToDouble(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? std::nan("") : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 ? -value : value;
}

template <typename T, typename Convert>
static void readAs(Tensor &to, ArrayRef<uint8_t> bytes, Convert convert) {
  for (size_t i = 0; i < to.data.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    to.data[i] = convert(element);
  }
}

Tensor kerf::interpret::fromBytes(RankedTensorType type,
                                  ArrayRef<uint8_t> bytes) {
  Tensor result(type.getShape());
  Type element = type.getElementType();
  auto plain = [](auto value) { return static_cast<double>(value); };
  bool isUnsigned = element.isUnsignedInteger();
  unsigned width = element.getIntOrFloatBitWidth();
  assert(bytes.size() >= result.data.size() * ((width + 7) / 8));
  if (element.isF64())
    readAs<double>(result, bytes, plain);
  else if (element.isF32())
    readAs<float>(result, bytes, plain);
  else if (element.isF16())
    readAs<uint16_t>(result, bytes, halfToDouble);
  else if (element.isBF16())
    readAs<uint16_t>(result, bytes, [](uint16_t bits) {
      uint32_t wide = uint32_t(bits) << 16;
      float value;
      std::memcpy(&value, &wide, sizeof(value));
      return static_cast<double>(value);
    });
  else if (isNarrow(element))
    readAs<uint8_t>(result, bytes,
                    [&](uint8_t code) { return narrowNumber(code, element); });
  else if (width == 1)
    readAs<uint8_t>(result, bytes, [](uint8_t value) { return value != 0; });
  else if (width == 8)
    isUnsigned ? readAs<uint8_t>(result, bytes, plain)
               : readAs<int8_t>(result, bytes, plain);
  else if (width == 16)
    isUnsigned ? readAs<uint16_t>(result, bytes, plain)
               : readAs<int16_t>(result, bytes, plain);
  else if (width == 32)
    isUnsigned ? readAs<uint32_t>(result, bytes, plain)
               : readAs<int32_t>(result, bytes, plain);
  else
    isUnsigned ? readAs<uint64_t>(result, bytes, plain)
               : readAs<int64_t>(result, bytes, plain);
  return result;
}

std::vector<uint8_t> kerf::interpret::toBytes(RankedTensorType type,
                                              const Tensor &tensor) {
  Type element = type.getElementType();
  size_t width = (element.getIntOrFloatBitWidth() + 7) / 8;
  std::vector<uint8_t> bytes(tensor.data.size() * width);
  for (auto [i, number] : llvm::enumerate(tensor.data)) {
    uint64_t bits;
    if (isNarrow(element)) {
      bits = narrowCode(number, element);
    } else if (auto floats = dyn_cast<FloatType>(element)) {
      llvm::APFloat value(number);
      bool lost;
      value.convert(floats.getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &lost);
      bits = value.bitcastToAPInt().getZExtValue();
    } else {
      bits = uint64_t(static_cast<int64_t>(number));
    }
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

void kerf::interpret::roundRandomlyTo(Tensor &tensor, Type elementType,
                                      double units, std::mt19937_64 &random,
                                      const Tensor *terms) {
  auto type = dyn_cast<FloatType>(elementType);
  if (!type)
    return roundTo(tensor, elementType);
  Tensor exact = tensor;
  roundTo(exact, elementType);
  // Numbers of the type stay: nothing rounds them.
  double most =
      units * std::ldexp(1, -static_cast<int>(type.getFPMantissaWidth()));
  std::uniform_real_distribution<double> moves(-0.5, 0.5);
  for (auto [index, value] : llvm::enumerate(tensor.data)) {
    double moved = value + value * most * moves(random);
    if (terms)
      moved += terms->data[index] * most * moves(random);
    if (value != exact.data[index])
      value = moved;
  }
  roundTo(tensor, elementType);
}

void kerf::interpret::roundTo(Tensor &tensor, Type elementType) {
  if (elementType.isF64())
    return;
  if (elementType.isF32()) {
    for (double &value : tensor.data)
      value = static_cast<float>(value);
  } else if (elementType.isBF16()) {
    for (double &value : tensor.data)
      value = nearest(value, 8, -133, 0x1.FEp127);
  } else if (elementType.isF16()) {
    for (double &value : tensor.data)
      value = nearest(value, 11, -24, 65504);
  } else if (isNarrow(elementType) && isa<FloatType>(elementType)) {
    for (double &value : tensor.data)
      value = roundToNarrow(value, elementType);
  } else if (elementType.isInteger(1)) {
    for (double &value : tensor.data)
      value = value != 0;
  } else if (unsigned width = elementType.getIntOrFloatBitWidth();
             width <= 32) {
    double modulus = std::ldexp(1, static_cast<int>(width));
    double low = elementType.isUnsignedInteger() ? 0 : -modulus / 2;
    for (double &value : tensor.data)
      if (value < low || value >= low + modulus)
        value -= std::floor((value - low) / modulus) * modulus;
  }
}
