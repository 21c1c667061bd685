//===- NarrowNumbers.cpp - codes of 2 to 8 bits as numbers ----------------===//
#include "NarrowNumbers.h"

#include <cmath>

using namespace mlir;
using namespace kerf::interpret;

namespace {
/// A float of 8 or 4 bits: a sign, an exponent, and below it a mantissa.
struct Format {
  int bits, mantissa, bias;
  double largest;
  int firstSpecial; ///< codes from here on, without sign, are no numbers
  bool hasInfinity; ///< which is the first of them
  bool hasNegativeZero = true; ///< if not, its code is NaN
};

Format formatOf(Type type) {
  constexpr int kNone = 256;
  if (isa<Float8E4M3FNType>(type))
    return {8, 3, 7, 448, 127, false};
  if (isa<Float8E4M3FNUZType>(type))
    return {8, 3, 8, 240, kNone, false, false};
  if (isa<Float8E5M2Type>(type))
    return {8, 2, 15, 57344, 124, true};
  if (isa<Float8E5M2FNUZType>(type))
    return {8, 2, 16, 57344, kNone, false, false};
  assert(isa<Float4E2M1FNType>(type) && "not a narrow type of floats");
  return {4, 1, 1, 6, kNone, false};
}

double floatNumber(int code, const Format &format) {
  int signBit = 1 << (format.bits - 1);
  int rest = code & (signBit - 1);
  bool negative = code & signBit;
  if (!format.hasNegativeZero && negative && rest == 0)
    return std::nan("");
  double value;
  if (rest >= format.firstSpecial) {
    bool infinite = format.hasInfinity && rest == format.firstSpecial;
    value = infinite ? INFINITY : std::nan("");
  } else {
    int exponent = rest >> format.mantissa;
    int digits = rest & ((1 << format.mantissa) - 1);
    if (exponent > 0)
      digits += 1 << format.mantissa;
    value = std::ldexp(digits,
                       std::max(exponent, 1) - format.bias - format.mantissa);
  }
  return negative ? -value : value;
}
} // namespace

double kerf::interpret::narrowNumber(uint8_t code, Type element) {
  if (isa<Float8E8M0FNUType>(element))
    return code == 255 ? std::nan("") : std::ldexp(1, code - 127);
  if (isa<FloatType>(element))
    return floatNumber(code, formatOf(element));
  int count = 1 << element.getIntOrFloatBitWidth(), value = code % count;
  bool negative = !element.isUnsignedInteger() && value >= count / 2;
  return negative ? value - count : value;
}

uint8_t kerf::interpret::narrowCode(double number, Type element) {
  for (int code = 0; code < 1 << element.getIntOrFloatBitWidth(); ++code) {
    double each = narrowNumber(static_cast<uint8_t>(code), element);
    if ((each == number && std::signbit(each) == std::signbit(number)) ||
        (std::isnan(each) && std::isnan(number)))
      return static_cast<uint8_t>(code);
  }
  return 0;
}

double kerf::interpret::roundToNarrow(double value, Type element) {
  if (isa<Float8E8M0FNUType>(element))
    return value; // only bits become one
  Format format = formatOf(element);
  bool hasNaN = format.bits == 8;
  if (std::isnan(value))
    return hasNaN ? value : -0.0;
  double rounded = nearest(value, format.mantissa + 1,
                           1 - format.bias - format.mantissa, format.largest);
  if (std::isinf(rounded) && !format.hasInfinity)
    rounded = std::copysign(hasNaN ? std::nan("") : format.largest, value);
  return rounded == 0 && !format.hasNegativeZero ? 0 : rounded;
}

double kerf::interpret::nearest(double value, int digits, int lowest,
                                double max) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent);
  int unit = std::max(exponent - digits, lowest);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) > max ? std::copysign(INFINITY, value) : rounded;
}
