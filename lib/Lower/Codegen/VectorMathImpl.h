//===- VectorMathImpl.h - functions as polynomials --------------*- C++ -*-===//
//
// See VectorMath.h. Rounding to an integer adds and subtracts 1.5 * 2^23
// (2^52), whose low bits then hold the integer: cheaper than a rounding
// instruction plus a conversion. This and the split constants of the range
// reductions need exact evaluation order, so no fast-math flag is set here.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_VECTORMATHIMPL_H
#define KERF_LOWER_CODEGEN_VECTORMATHIMPL_H

#include "VectorMath.h"

#include <cmath>
#include <limits>

namespace kerf::codegen {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename B>
auto VectorMathOf<B>::constant(Value like, double value) -> Value {
  return b.real(b.typeOf(like), value);
}

template <typename B>
auto VectorMathOf<B>::select(Value condition, Value a, Value c) -> Value {
  return b.CreateSelect(condition, a, c);
}

template <typename B>
auto VectorMathOf<B>::unary(llvm::Intrinsic::ID id, Value x) -> Value {
  return b.CreateUnaryIntrinsic(id, x);
}

template <typename B>
auto VectorMathOf<B>::mulAdd(Value x, Value y, Value z) -> Value {
  return b.mulAdd(x, y, z);
}

template <typename B> auto VectorMathOf<B>::maximum(Value x, Value y) -> Value {
  // max(x, y) of x86 gives y if either is NaN: only NaN in x needs a select.
  Value larger = select(b.CreateFCmpOGT(x, y), x, y);
  return select(b.CreateFCmpUNO(x, x), x, larger);
}

template <typename B> auto VectorMathOf<B>::minimum(Value x, Value y) -> Value {
  Value smaller = select(b.CreateFCmpOLT(x, y), x, y);
  return select(b.CreateFCmpUNO(x, x), x, smaller);
}

template <typename B>
auto VectorMathOf<B>::polynomial(Value x, llvm::ArrayRef<double> c) -> Value {
  Value sum = constant(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;)
    sum = mulAdd(sum, x, constant(x, c[i]));
  return sum;
}

//===----------------------------------------------------------------------===//
// exp: x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) = 1 + r + r^2 P(r); n is
// added to the exponent.
//===----------------------------------------------------------------------===//

template <typename B>
auto VectorMathOf<B>::expImpl(Value x, bool nonPositive) -> Value {
  bool wide = isDouble(x);
  // The largest number whose exponential is finite.
  double high = wide ? 709.782712893384 : 88.72283172607422;
  double low = wide ? -708.3964185322641 : -87.33654022216797;
  Value clamped = x;
  if (!nonPositive)
    clamped = select(b.CreateFCmpOGT(x, constant(x, high)), constant(x, high),
                     clamped);
  Value tooLow = b.CreateFCmpOLT(x, constant(x, low));
  clamped = select(tooLow, constant(x, low), clamped);

  double magic = wide ? 6755399441055744.0 : 12582912.0;
  Value shifted =
      mulAdd(clamped, constant(x, 1.4426950408889634), constant(x, magic));
  Value n = b.CreateFSub(shifted, constant(x, magic));
  double ln2High = wide ? 0.693147180369123816490 : 0.693359375;
  double ln2Low = wide ? 1.90821492927058770002e-10 : -2.12194440e-4;
  Value r = mulAdd(n, constant(x, -ln2High), clamped);
  r = mulAdd(n, constant(x, -ln2Low), r);
  static const double narrow[] = {0.5, 0.1666657338, 0.04166655011,
                                  0.008363773874, 0.001392692661};
  static const double precise[] = {0.5,
                                   0.1666666666666667144,
                                   0.04166666666666667007,
                                   0.0083333333333255447,
                                   0.001388888888888332667,
                                   0.0001984126987686435493,
                                   0.00002480158732700718673,
                                   2.755725283351690975e-6,
                                   2.755727181021979957e-7,
                                   2.510627473357329469e-8,
                                   2.091544229778011522e-9};
  Value p = polynomial(r, wide ? llvm::ArrayRef<double>(precise)
                               : llvm::ArrayRef<double>(narrow));
  p = b.CreateFAdd(mulAdd(p, b.CreateFMul(r, r), r), constant(x, 1));

  Type bits = integerType(b.typeOf(x), wide ? 64 : 32);
  Value exponent = b.CreateShl(b.CreateBitCast(shifted, bits), wide ? 52 : 23);
  Value scaled = b.CreateBitCast(
      b.CreateAdd(b.CreateBitCast(p, bits), exponent), b.typeOf(x));
  scaled = select(tooLow, constant(x, 0), scaled);
  if (!nonPositive)
    scaled = select(b.CreateFCmpOGT(x, constant(x, high)),
                    constant(x, kInfinity), scaled);
  // The exponent of NaN is whatever the low bits of `shifted` are.
  return select(b.CreateFCmpUNO(x, x), x, scaled);
}

template <typename B> auto VectorMathOf<B>::exp(Value x) -> Value {
  return expImpl(x, false);
}
template <typename B> auto VectorMathOf<B>::expNonPositive(Value x) -> Value {
  return expImpl(x, true);
}

template <typename B> auto VectorMathOf<B>::sigmoid(Value x) -> Value {
  Value e = expImpl(b.CreateFNeg(x), false);
  return b.CreateFDiv(constant(x, 1), b.CreateFAdd(constant(x, 1), e));
}

//===----------------------------------------------------------------------===//
// log: x = 2^e m with m in [sqrt(1/2), sqrt(2)).
//===----------------------------------------------------------------------===//

template <typename B> auto VectorMathOf<B>::log(Value x) -> Value {
  bool wide = isDouble(x);
  Type bits = integerType(b.typeOf(x), wide ? 64 : 32);
  auto integer = [&](uint64_t value) { return b.integer(bits, value); };
  // Subnormals are scaled to normal ones first.
  Value subnormal = b.CreateFCmpOLT(
      x, constant(x, wide ? 2.2250738585072014e-308 : 1.17549435e-38));
  double scale = wide ? 18014398509481984.0 : 16777216.0; // 2^54, 2^24
  Value normal = select(subnormal, b.CreateFMul(x, constant(x, scale)), x);
  Value raw = b.CreateBitCast(normal, bits);
  // Subtracting sqrt(1/2) puts the border between exponents there.
  uint64_t half = wide ? 0x3fe6a09e667f3bcdULL : 0x3f3504f3ULL;
  unsigned mantissa = wide ? 52 : 23;
  Value exponent = b.CreateAShr(b.CreateSub(raw, integer(half)), mantissa);
  Value m = b.CreateBitCast(b.CreateSub(raw, b.CreateShl(exponent, mantissa)),
                            b.typeOf(x));
  Value e = b.CreateSIToFP(exponent, b.typeOf(x));
  e = b.CreateFSub(
      e, select(subnormal, constant(x, wide ? 54 : 24), constant(x, 0)));
  Value result;
  if (wide) {
    // s = (m - 1) / (m + 1): log m = 2 s + s^3 P(s^2).
    static const double c[] = {
        0.6666666666666666667, 0.3999999999999999244, 0.285714285714354076,
        0.222222222198442311,  0.1818181859576906468, 0.1538457496646090682,
        0.1333564584194937711, 0.116879629975421557,  0.1188345239410785957};
    Value t = b.CreateFSub(m, constant(x, 1));
    Value s = b.CreateFDiv(t, b.CreateFAdd(m, constant(x, 1)));
    Value z = b.CreateFMul(s, s);
    Value tail = b.CreateFMul(polynomial(z, c), z);
    // 2 s = t - s t keeps the leading term exact.
    Value correction = b.CreateFMul(s, b.CreateFSub(t, tail));
    Value low = mulAdd(e, constant(x, 1.90821492927058770002e-10),
                       b.CreateFNeg(correction));
    result =
        mulAdd(e, constant(x, 0.693147180369123816490), b.CreateFAdd(t, low));
  } else {
    static const double c[] = {0.3333333118,  -0.2499999696, 0.2000071575,
                               -0.1666780232, 0.1424905765,  -0.1242568733,
                               0.1168541992,  -0.1147973385, 0.06971611471};
    Value t = b.CreateFSub(m, constant(x, 1));
    Value z = b.CreateFMul(t, t);
    Value p = b.CreateFMul(b.CreateFMul(polynomial(t, c), t), z);
    p = mulAdd(e, constant(x, -2.12194440e-4), p);
    p = mulAdd(z, constant(x, -0.5), p);
    result = mulAdd(e, constant(x, 0.693359375), b.CreateFAdd(t, p));
  }
  result = select(b.CreateFCmpOEQ(x, constant(x, kInfinity)), x, result);
  result = select(b.CreateFCmpOEQ(x, constant(x, 0)), constant(x, -kInfinity),
                  result);
  return select(b.CreateFCmpULT(x, constant(x, 0)), constant(x, kNaN), result);
}

//===----------------------------------------------------------------------===//
// tanh and erf: x P(x^2) / Q(x^2) in f32; exponentials in f64.
//===----------------------------------------------------------------------===//

/// Rounding must not lead out of [-1, 1].
template <typename B> auto VectorMathOf<B>::withinOne(Value x) -> Value {
  Value one = constant(x, 1), minus = constant(x, -1);
  Value bounded = select(b.CreateFCmpOGT(x, one), one, x);
  return select(b.CreateFCmpOLT(bounded, minus), minus, bounded);
}

template <typename B> auto VectorMathOf<B>::tanh(Value x) -> Value {
  if (isDouble(x)) {
    static const double c[] = {
        -0.3333333333333333333,     0.1333333333333333331,
        -0.05396825396825392503,    0.02186948853615193155,
        -0.008863235529772356797,   0.003592128033463853731,
        -0.001455834338377055249,   0.0005900269170213870339,
        -0.0002391251157197576078,  0.00009689336015100018398,
        -0.00003919024351497589267, 0.00001566390012497587036,
        -5.925235403611006168e-6,   1.86150046033638624e-6,
        -3.4490826410417723e-7};
    Value z = b.CreateFMul(x, x);
    Value small = mulAdd(b.CreateFMul(polynomial(z, c), z), x, x);
    Value magnitude = unary(llvm::Intrinsic::fabs, x);
    Value e = exp(b.CreateFMul(magnitude, constant(x, 2)));
    Value large = b.CreateFSub(
        constant(x, 1),
        b.CreateFDiv(constant(x, 2), b.CreateFAdd(e, constant(x, 1))));
    large = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, large, x);
    return select(b.CreateFCmpOLT(magnitude, constant(x, 0.625)), small, large);
  }
  static const double p[] = {0.9999999987,   0.136801053,    0.003868561939,
                             2.801193396e-5, 3.059479439e-8, -1.220982655e-11};
  static const double q[] = {1.0, 0.4701343741, 0.02724670669, 0.0003939035077,
                             1.287666031e-6};
  Value limit = constant(x, 9.02);
  Value clamped = select(b.CreateFCmpOGT(x, limit), limit, x);
  Value minus = constant(x, -9.02);
  clamped = select(b.CreateFCmpOLT(clamped, minus), minus, clamped);
  Value z = b.CreateFMul(clamped, clamped);
  return withinOne(
      b.CreateFDiv(b.CreateFMul(clamped, polynomial(z, p)), polynomial(z, q)));
}

template <typename B> auto VectorMathOf<B>::erf(Value x) -> Value {
  if (isDouble(x))
    return erf64(x);
  static const double p[] = {1.128379147,    0.1905399708,    0.0527571043,
                             0.003768923812, 0.0002845316439, 2.043345104e-6};
  static const double q[] = {1.0,           0.5021944216,   0.1141558843,
                             0.01497603541, 0.001162555487, 3.800387383e-5};
  Value limit = constant(x, 3.925);
  Value clamped = select(b.CreateFCmpOGT(x, limit), limit, x);
  Value minus = constant(x, -3.925);
  clamped = select(b.CreateFCmpOLT(clamped, minus), minus, clamped);
  Value z = b.CreateFMul(clamped, clamped);
  return withinOne(
      b.CreateFDiv(b.CreateFMul(clamped, polynomial(z, p)), polynomial(z, q)));
}

template <typename B> auto VectorMathOf<B>::erf64(Value x) -> Value {
  static const double c[] = {1.128379167095512574,    -0.37612638903183748,
                             0.1128379167095487604,   -0.02686617064507626933,
                             0.005223977624812637324, -0.000854832698050941287,
                             0.00012055331099279798,  -0.0000149255949575960262,
                             1.646099533819541209e-6, -1.635025627869649843e-7,
                             1.465938382134006758e-8, -1.137129183104795308e-9,
                             5.95447158315348262e-11};
  // exp(x^2) erfc(x) on [0.99, 6] as a polynomial in u, where u in [-1, 1] is
  // affine in 4 / (4 + x).
  static const double large[] = {
      0.1996672371382290873,     0.1491743335031468267,
      0.05655961573648888154,    0.01837784519641444671,
      0.005094480218397424578,   0.001190474772700715249,
      0.0002289665869478030733,  0.00003452689131652700545,
      3.61790477009254253e-6,    1.473805552650321518e-7,
      -2.705072999374026229e-8,  -5.184767208334328255e-9,
      -1.085152177748465867e-10, 7.332695757200039241e-11,
      6.918178062909607104e-12,  -8.995262123792975273e-13,
      -1.661697577560696943e-13, 1.09537166035805326e-14,
      3.226026788298924326e-15};
  const double a = 0.4, e = 0.8016032064128256513;
  Value magnitude = unary(llvm::Intrinsic::fabs, x);
  Value six = constant(x, 6);
  Value clamped = select(b.CreateFCmpOGT(magnitude, six), six, magnitude);
  Value z = b.CreateFMul(clamped, clamped);
  Value small = b.CreateFMul(polynomial(z, c), x);
  Value t = b.CreateFDiv(constant(x, 4), b.CreateFAdd(constant(x, 4), clamped));
  Value u =
      mulAdd(t, constant(x, 2 / (e - a)), constant(x, -(a + e) / (e - a)));
  Value erfc = b.CreateFMul(polynomial(u, large), exp(b.CreateFNeg(z)));
  Value tail = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                       b.CreateFSub(constant(x, 1), erfc), x);
  Value result =
      select(b.CreateFCmpOLT(magnitude, constant(x, 1)), small, tail);
  return select(b.CreateFCmpUNO(x, x), x, result);
}

//===----------------------------------------------------------------------===//
// sin, cos: the range is reduced in f64, for f32, too.
//===----------------------------------------------------------------------===//

template <typename B>
auto VectorMathOf<B>::sinCos(Value x, bool cosine) -> Value {
  Type type = b.typeOf(x);
  Type wideType = b.withElement(type, b.getDoubleTy());
  bool wide = isDouble(x);
  Value d = wide ? x : b.CreateFPExt(x, wideType);
  const double magic = 6755399441055744.0;
  Value shifted =
      mulAdd(d, constant(d, 0.63661977236758134308), constant(d, magic));
  Value n = b.CreateFSub(shifted, constant(d, magic));
  Value r = mulAdd(n, constant(d, -1.5707963267341256), d);
  r = mulAdd(n, constant(d, -6.077100506303966e-11), r);
  r = mulAdd(n, constant(d, -2.0222662487959506e-21), r);
  Value quadrant = b.CreateTrunc(
      b.CreateBitCast(shifted, integerType(type, 64)), integerType(type, 32));
  if (cosine)
    quadrant = b.CreateAdd(quadrant, b.integer(b.typeOf(quadrant), 1));
  if (!wide)
    r = b.CreateFPTrunc(r, type);
  Value z = b.CreateFMul(r, r);
  static const double s32[] = {-0.1666666666, 0.008333331866, -0.0001984008202,
                               2.724931436e-6};
  static const double c32[] = {0.04166666666, -0.001388888766, 2.480059644e-5,
                               -2.730044887e-7};
  static const double s64[] = {
      -0.1666666666666666667,    0.00833333333333333147,
      -0.0001984126984126501705, 2.755731921930193737e-6,
      -2.505210621952836671e-8,  1.605852957329173808e-10,
      -7.586576648405261201e-13};
  static const double c64[] = {
      0.04166666666666666667,   -0.001388888888888888785,
      0.0000248015873015846198, -2.755731922138212596e-7,
      2.087675578389763697e-9,  -1.147045975024485319e-11,
      4.7458049232498397e-14};
  Value s = polynomial(z, wide ? llvm::ArrayRef<double>(s64)
                               : llvm::ArrayRef<double>(s32));
  s = mulAdd(b.CreateFMul(s, z), r, r);
  Value c = polynomial(z, wide ? llvm::ArrayRef<double>(c64)
                               : llvm::ArrayRef<double>(c32));
  c = mulAdd(b.CreateFMul(c, z), z,
             mulAdd(z, constant(x, -0.5), constant(x, 1)));
  auto bit = [&](uint64_t mask) {
    Value masked = b.CreateAnd(quadrant, b.integer(b.typeOf(quadrant), mask));
    return b.CreateICmpNE(masked, b.integer(b.typeOf(quadrant), 0));
  };
  Value result = select(bit(1), c, s);
  result = select(bit(2), b.CreateFNeg(result), result);
  // Infinity: n is infinite and r is NaN, the polynomials keep it.
  return result;
}

//===----------------------------------------------------------------------===//
// pow = exp(y log |x|) in f64, with a correction of the logarithm in f64
// proper.
//===----------------------------------------------------------------------===//

template <typename B> auto VectorMathOf<B>::pow(Value x, Value y) -> Value {
  Type type = b.typeOf(x);
  bool wide = isDouble(x);
  Value one = constant(x, 1), zero = constant(x, 0);
  Value magnitude = unary(llvm::Intrinsic::fabs, x);
  Value result;
  if (wide) {
    // log|x| as high + low: the low part is what exp(high) misses, to first
    // order, so that the error is not multiplied by the exponent.
    Value high = log(magnitude);
    Value back = exp(high);
    Value finite = b.CreateAnd(b.CreateFCmpOGT(back, constant(x, 1e-290)),
                               b.CreateFCmpOLT(back, constant(x, 1e290)));
    Value low = b.CreateFDiv(b.CreateFSub(magnitude, back), back);
    low = select(finite, low, zero);
    Value product = b.CreateFMul(y, high);
    Value error = b.mulAdd(y, high, b.CreateFNeg(product));
    Value rest = mulAdd(y, low, error);
    Value e = exp(product);
    Value usable = b.CreateAnd(
        b.CreateFCmpOLT(unary(llvm::Intrinsic::fabs, rest), constant(x, 1)),
        b.CreateFCmpOLT(e, constant(x, kInfinity)));
    result = select(usable, mulAdd(e, rest, e), e);
  } else {
    Type wideType = b.withElement(type, b.getDoubleTy());
    Value product = b.CreateFMul(b.CreateFPExt(y, wideType),
                                 log(b.CreateFPExt(magnitude, wideType)));
    result = b.CreateFPTrunc(exp(product), type);
  }
  // |x| = 1 with infinite y, and 0 * infinity in the product.
  result = select(b.CreateFCmpOEQ(magnitude, one),
                  select(b.CreateFCmpUNO(y, y), y, one), result);
  Value truncated = unary(llvm::Intrinsic::trunc, y);
  Value isInteger = b.CreateFCmpOEQ(truncated, y);
  Value halved = b.CreateFMul(y, constant(x, 0.5));
  Value isOdd = b.CreateAnd(
      isInteger,
      b.CreateFCmpONE(unary(llvm::Intrinsic::trunc, halved), halved));
  Value signedResult =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, x);
  result = select(isOdd, signedResult, result);
  // A negative finite base needs an integer exponent.
  Value negative = b.CreateAnd(b.CreateFCmpOLT(x, zero),
                               b.CreateFCmpOGT(x, constant(x, -kInfinity)));
  result = select(b.CreateAnd(negative, b.CreateNot(isInteger)),
                  constant(x, kNaN), result);
  Value trivial = b.CreateOr(b.CreateFCmpOEQ(y, zero), b.CreateFCmpOEQ(x, one));
  return select(trivial, one, result);
}

template <typename B>
auto VectorMathOf<B>::remainder(Value x, Value y, bool floor) -> Value {
  Type type = b.typeOf(x);
  bool wide = isDouble(x);
  Type wideType = b.withElement(type, b.getDoubleTy());
  Value dx = wide ? x : b.CreateFPExt(x, wideType);
  Value dy = wide ? y : b.CreateFPExt(y, wideType);
  Value zero = constant(dx, 0), infinity = constant(dx, kInfinity);
  Value divisor = unary(llvm::Intrinsic::fabs, dy);
  Value r = unary(llvm::Intrinsic::fabs, dx);
  // Long division, 52 bits of the quotient per step. The remainder is a
  // multiple of the divisor's last bit and less than the scaled divisor, so
  // every step is exact. Quotients of floats are below 2^278, of doubles below
  // 2^2099.
  constexpr int kBits = 52;
  for (int step = wide ? 40 : 5; step >= 0; --step) {
    Value scaled = divisor;
    for (int shift = step * kBits; shift > 0; shift -= 1000)
      scaled = b.CreateFMul(
          scaled, constant(dx, std::ldexp(1.0, std::min(shift, 1000))));
    Value q = unary(llvm::Intrinsic::trunc, b.CreateFDiv(r, scaled));
    Value rest = mulAdd(b.CreateFNeg(q), scaled, r);
    // A quotient that was rounded up.
    rest =
        select(b.CreateFCmpOLT(rest, zero), b.CreateFAdd(rest, scaled), rest);
    // An infinite divisor returns the dividend, unless that is infinite.
    Value keeps = b.CreateAnd(b.CreateFCmpOEQ(scaled, infinity),
                              b.CreateFCmpOLT(r, infinity));
    r = select(keeps, r, rest);
  }
  r = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, r, dx);
  if (floor) {
    Value opposite = b.CreateAnd(
        b.CreateFCmpONE(r, zero),
        b.CreateXor(b.CreateFCmpOLT(r, zero), b.CreateFCmpOLT(dy, zero)));
    r = select(opposite, b.CreateFAdd(r, dy), r);
  }
  return wide ? r : b.CreateFPTrunc(r, type);
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_VECTORMATHIMPL_H
