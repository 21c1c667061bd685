//===- NarrowFloats.h - codes of 2 to 8 bits and numbers --------*- C++ -*-===//
//
// Problem: no CPU that Kerf counts on converts floats of 8 bits and less, or
// integers of less than 8, and each of these types has rules of its own.
//
// Idea: a code is a byte (kerf/Support/NarrowTypes.h). Without its sign, a code
// shifted to where f32 has exponent and mantissa is the number, but for a power
// of 2 that the difference of the biases gives; that product is exact for
// subnormal numbers too. Back, a normal number is rounded in its bits, and a
// subnormal one by adding a number whose last bit has the weight of the code's.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_NARROWFLOATS_H
#define KERF_LOWER_CODEGEN_NARROWFLOATS_H

#include "mlir/IR/BuiltinTypes.h"

#include <cmath>

namespace kerf::codegen {

template <typename B> class NarrowFloats {
public:
  using V = typename B::V;
  using T = typename B::T;
  explicit NarrowFloats(B &b) : b(b) {}

  /// The f32 that a code (i8) stands for.
  V toFloat(V code, mlir::Type element);
  /// The code of the nearest number, of an f32 or an f64.
  V fromFloat(V value, mlir::Type element);

private:
  struct Format {
    unsigned bits, mantissa;
    int bias;
    /// Codes without sign: the largest number, what larger ones become, NaN.
    unsigned largest, beyond, nan;
    /// A code of a sign alone is NaN, and infinity has no sign.
    bool unsignedZero = false;
  };
  static Format formatOf(mlir::Type type) {
    if (mlir::isa<mlir::Float8E4M3FNType>(type))
      return {8, 3, 7, 0x7e, 0x7f, 0x7f};
    if (mlir::isa<mlir::Float8E4M3FNUZType>(type))
      return {8, 3, 8, 0x7f, 0x80, 0x80, true};
    if (mlir::isa<mlir::Float8E5M2Type>(type))
      return {8, 2, 15, 0x7b, 0x7c, 0x7e};
    if (mlir::isa<mlir::Float8E5M2FNUZType>(type))
      return {8, 2, 16, 0x7f, 0x80, 0x80, true};
    assert(mlir::isa<mlir::Float4E2M1FNType>(type) && "not a narrow float");
    return {4, 1, 1, 7, 7, 8}; // NaN becomes -0
  }
  V integer(V like, uint64_t value) { return b.integer(b.typeOf(like), value); }
  V real(V like, double value) { return b.real(b.typeOf(like), value); }
  V select(V c, V x, V y) { return b.CreateSelect(c, x, y); }
  V toOdd(V value);

  B &b;
};

template <typename B>
auto NarrowFloats<B>::toFloat(V code, mlir::Type element) -> V {
  T i32 = b.withElement(b.typeOf(code), b.getInt32Ty());
  T f32 = b.withElement(b.typeOf(code), b.getFloatTy());
  V wide = b.CreateZExt(code, i32);
  constexpr uint32_t kNaN = 0x7fc00000;
  if (mlir::isa<mlir::Float8E8M0FNUType>(element)) {
    V power = b.CreateShl(wide, 23); // 0 stands for 2^-127, which is subnormal
    power = select(b.CreateICmpEQ(wide, integer(wide, 0)),
                   integer(wide, 0x00400000), power);
    power = select(b.CreateICmpEQ(wide, integer(wide, 255)),
                   integer(wide, kNaN), power);
    return b.CreateBitCast(power, f32);
  }
  Format format = formatOf(element);
  V sign = b.CreateAnd(wide, integer(wide, 1u << (format.bits - 1)));
  V rest = b.CreateAnd(wide, integer(wide, (1u << (format.bits - 1)) - 1));
  V shifted = b.CreateShl(rest, 23 - format.mantissa);
  V scaled = b.CreateFMul(b.CreateBitCast(shifted, f32),
                          b.real(f32, std::ldexp(1.0, 127 - format.bias)));
  V bits = b.CreateBitCast(scaled, i32);
  if (format.unsignedZero)
    bits = select(b.CreateICmpEQ(wide, integer(wide, format.nan)),
                  integer(wide, kNaN), bits);
  else if (format.bits == 8)
    bits = select(b.CreateICmpUGT(rest, integer(rest, format.largest)),
                  integer(wide, kNaN), bits);
  if (!format.unsignedZero && format.beyond != format.nan && format.bits == 8)
    bits = select(b.CreateICmpEQ(rest, integer(rest, format.beyond)),
                  integer(wide, 0x7f800000), bits);
  bits = b.CreateOr(bits, b.CreateShl(sign, 32 - format.bits));
  return b.CreateBitCast(bits, f32);
}

/// An f32 for an f64 so that rounding it again is rounding the f64: the nearest
/// towards zero, whose last bit is set if something was lost.
template <typename B> auto NarrowFloats<B>::toOdd(V value) -> V {
  T f32 = b.withElement(b.typeOf(value), b.getFloatTy());
  T i32 = b.withElement(b.typeOf(value), b.getInt32Ty());
  V rounded = b.CreateFPTrunc(value, f32);
  V back = b.CreateFPExt(rounded, b.typeOf(value));
  V zero = real(value, 0);
  auto magnitude = [&](V x) {
    return select(b.CreateFCmpOLT(x, zero), b.CreateFNeg(x), x);
  };
  V bits = b.CreateBitCast(rounded, i32);
  V down = b.CreateSub(bits, integer(bits, 1));
  bits = select(b.CreateFCmpOGT(magnitude(back), magnitude(value)), down, bits);
  bits = select(b.CreateFCmpONE(back, value),
                b.CreateOr(bits, integer(bits, 1)), bits);
  return b.CreateBitCast(bits, f32);
}

template <typename B>
auto NarrowFloats<B>::fromFloat(V value, mlir::Type element) -> V {
  Format format = formatOf(element);
  if (b.isDouble(b.typeOf(value)))
    value = toOdd(value);
  T i32 = b.withElement(b.typeOf(value), b.getInt32Ty());
  T i8 = b.withElement(b.typeOf(value), b.getInt8Ty());
  V bits = b.CreateBitCast(value, i32);
  V magnitude = b.CreateAnd(bits, integer(bits, 0x7fffffff));
  unsigned shift = 23 - format.mantissa;
  V odd = b.CreateAnd(b.CreateLShr(magnitude, shift), integer(bits, 1));
  V normal = b.CreateAdd(b.CreateAdd(magnitude, odd),
                         integer(bits, (1u << (shift - 1)) - 1));
  normal = b.CreateSub(
      b.CreateLShr(normal, shift),
      integer(bits, uint64_t(127 - format.bias) << format.mantissa));
  // 1 is the first exponent of normal numbers.
  int lowest = 1 - format.bias;
  V step = real(value, std::ldexp(1.0, lowest + int(shift)));
  V small = b.CreateFAdd(b.CreateBitCast(magnitude, b.typeOf(value)), step);
  small = b.CreateSub(b.CreateBitCast(small, i32), b.CreateBitCast(step, i32));
  V code = select(
      b.CreateICmpULT(magnitude, integer(bits, uint64_t(127 + lowest) << 23)),
      small, normal);
  V sign = b.CreateLShr(b.CreateXor(bits, magnitude), 32 - format.bits);
  // Without a negative zero the sign of 0 is dropped, as that of NaN is.
  if (format.unsignedZero)
    sign = select(b.CreateICmpEQ(code, integer(code, 0)), code, sign);
  V tooLarge = b.CreateICmpUGT(code, integer(code, format.largest));
  code = select(tooLarge, integer(code, format.beyond), code);
  V isNaN = b.CreateICmpUGT(magnitude, integer(bits, 0x7f800000));
  code = select(isNaN, integer(code, format.nan), code);
  if (format.unsignedZero)
    sign = select(tooLarge, integer(code, 0), sign);
  else if (format.bits < 8)
    sign = select(isNaN, integer(code, 0), sign);
  return b.CreateTrunc(b.CreateOr(code, sign), i8);
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_NARROWFLOATS_H
