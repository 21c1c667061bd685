//===- Elements.h - operations on elements in generated code ----*- C++ -*-===//
//
// The `s` of the ops' definitions (kerf/NN/IR/Elements.h) over any builder.
// Operands are all scalars or all vectors of one width; a scalar combined with
// a vector is widened.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_ELEMENTS_H
#define KERF_LOWER_CODEGEN_ELEMENTS_H

#include "VectorMath.h"

#include "llvm/ADT/STLExtras.h"

#include <functional>

namespace kerf::codegen {

/// Floats in the type of `like`. Arithmetic is contracted to multiply-adds if
/// the builder is set to; the polynomials of functions are not.
template <typename B> class FloatElements {
public:
  using V = typename B::V;
  using C = V;

  FloatElements(B &b, VectorMathOf<B> &math, V like)
      : b(b), math(math), like(like) {}

  V number(double value) { return math.constant(like, value); }
  V number(const llvm::APFloat &value) {
    return number(value.convertToDouble());
  }
  V add(V x, V y) { return meet(x, y), b.CreateFAdd(x, y); }
  V sub(V x, V y) { return meet(x, y), b.CreateFSub(x, y); }
  V mul(V x, V y) { return meet(x, y), b.CreateFMul(x, y); }
  V div(V x, V y) { return meet(x, y), b.CreateFDiv(x, y); }
  V mulAdd(V x, V y, V z) { return math.mulAdd(x, y, z); }
  V neg(V x) { return b.CreateFNeg(x); }
  V abs(V x) { return math.unary(llvm::Intrinsic::fabs, x); }
  V copySign(V x, V y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, y);
  }
  V sqrt(V x) { return math.unary(llvm::Intrinsic::sqrt, x); }
  V floor(V x) { return math.unary(llvm::Intrinsic::floor, x); }
  V ceil(V x) { return math.unary(llvm::Intrinsic::ceil, x); }
  V round(V x) { return math.unary(llvm::Intrinsic::roundeven, x); }
  V max(V x, V y) { return meet(x, y), math.maximum(x, y); }
  V min(V x, V y) { return meet(x, y), math.minimum(x, y); }
  V rem(V x, V y) {
    return exactly([&] { return math.remainder(x, y, false); });
  }
  V mod(V x, V y) {
    return exactly([&] { return math.remainder(x, y, true); });
  }
  V exp(V x) {
    return exactly([&] { return math.exp(x); });
  }
  V log(V x) {
    return exactly([&] { return math.log(x); });
  }
  V erf(V x) {
    return exactly([&] { return math.erf(x); });
  }
  V tanh(V x) {
    return exactly([&] { return math.tanh(x); });
  }
  V sigmoid(V x) {
    return exactly([&] { return math.sigmoid(x); });
  }
  V sin(V x) {
    return exactly([&] { return math.sin(x); });
  }
  V cos(V x) {
    return exactly([&] { return math.cos(x); });
  }
  template <typename Constant> V pow(V x, V y, Constant constant) {
    if (std::optional<double> exponent = constant())
      if (V special = powConstant(x, *exponent))
        return special;
    return exactly([&] { return math.pow(x, y); });
  }
  C less(V x, V y) { return meet(x, y), b.CreateFCmpOLT(x, y); }
  C lessEqual(V x, V y) {
    return meet(x, y), b.CreateFCmp(llvm::CmpInst::FCMP_OLE, x, y);
  }
  C equal(V x, V y) { return meet(x, y), b.CreateFCmpOEQ(x, y); }
  C isNaN(V x) { return b.CreateFCmpUNO(x, x); }
  V select(C c, V x, V y) { return meet(x, y), b.CreateSelect(c, x, y); }
  /// LLVM (22.1) simplifies `x > 0 ? x : 0` to x if x is itself `y < 0 ? 0 :
  /// y`, as if y were never NaN; it does so for other bounds as well. A fence,
  /// which is no instruction, hides one from the other.
  V selectNumber(C c, V x, V y) {
    meet(x, y);
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::arithmetic_fence,
                                  b.CreateSelect(c, x, y));
  }
  /// Polynomials need their exact order.
  template <typename F> V exactly(F f) {
    bool before = b.isContract();
    b.setContract(false);
    V result = f();
    b.setContract(before);
    return result;
  }

protected:
  B &b;
  VectorMathOf<B> &math;
  V like;

private:
  void meet(V &x, V &y) {
    int64_t width = std::max(b.widthOf(x), b.widthOf(y));
    for (V *value : {&x, &y})
      if (width != 1 && !b.isVector(*value))
        *value = b.CreateVectorSplat(width, *value);
  }
  /// x^c without logarithms, null if c is not special.
  V powConstant(V x, double exponent) {
    if (exponent == 0)
      return number(1);
    if (exponent == 1)
      return x;
    if (exponent == 2)
      return mul(x, x);
    if (exponent == 3)
      return mul(mul(x, x), x);
    if (exponent == 4) {
      V square = mul(x, x);
      return mul(square, square);
    }
    if (exponent == -1)
      return div(number(1), x);
    if (exponent == -2)
      return div(number(1), mul(x, x));
    return nullptr;
  }
};

/// Integers in the type of `like`.
template <typename B> class IntegerElements {
public:
  using V = typename B::V;
  using C = V;

  /// `nonZero` returns a divisor that is not 0, after it has emitted the report
  /// of a division by zero.
  IntegerElements(B &b, V like, bool isUnsigned,
                  llvm::function_ref<V(V)> nonZero)
      : b(b), like(like), isUnsigned(isUnsigned), nonZero(nonZero) {}

  V number(int64_t value) { return b.integer(b.typeOf(like), value); }
  V add(V x, V y) { return b.CreateAdd(x, y); }
  V sub(V x, V y) { return b.CreateSub(x, y); }
  V mul(V x, V y) { return b.CreateMul(x, y); }
  V neg(V x) { return b.CreateNeg(x); }
  V abs(V x) {
    return isUnsigned
               ? x
               : b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse());
  }
  V sign(V x) {
    V zero = number(0), one = number(1);
    if (isUnsigned)
      return b.CreateSelect(b.CreateICmpNE(x, zero), one, zero);
    V minus = number(-1);
    return b.CreateSelect(
        b.CreateICmpSGT(x, zero), one,
        b.CreateSelect(b.CreateICmpSLT(x, zero), minus, zero));
  }
  V max(V x, V y) {
    return b.CreateBinaryIntrinsic(
        isUnsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, x, y);
  }
  V min(V x, V y) {
    return b.CreateBinaryIntrinsic(
        isUnsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, x, y);
  }
  V div(V x, V y) {
    y = nonZero(y);
    if (isUnsigned)
      return b.CreateUDiv(x, y);
    V minusOne = safe(y);
    V q = b.CreateSDiv(x, y);
    return b.CreateSelect(minusOne, b.CreateNeg(x), q);
  }
  /// The remainder by -1 is 0, like that by 1.
  V rem(V x, V y) {
    y = nonZero(y);
    if (isUnsigned)
      return b.CreateURem(x, y);
    safe(y);
    return b.CreateSRem(x, y);
  }
  V mod(V x, V y) {
    y = nonZero(y);
    if (isUnsigned)
      return b.CreateURem(x, y);
    safe(y);
    V r = b.CreateSRem(x, y), zero = number(0);
    V opposite = b.CreateICmpSLT(b.CreateXor(r, y), zero);
    V wrong = b.CreateAnd(opposite, b.CreateICmpNE(r, zero));
    return b.CreateSelect(wrong, b.CreateAdd(r, y), r);
  }
  V pow(V base, V exponent);
  V bitAnd(V x, V y) { return b.CreateAnd(x, y); }
  V bitOr(V x, V y) { return b.CreateOr(x, y); }
  V bitXor(V x, V y) { return b.CreateXor(x, y); }
  V invert(V x) { return b.CreateNot(x); }
  /// An instruction's shift by all bits or more has no defined result.
  V shiftLeft(V x, V y) {
    C within = isShift(y);
    V shifted = b.CreateShl(x, b.CreateSelect(within, y, number(0)));
    return b.CreateSelect(within, shifted, number(0));
  }
  V shiftRight(V x, V y) {
    C within = isShift(y);
    if (!isUnsigned)
      return b.CreateAShr(x, b.CreateSelect(within, y, number(bits() - 1)));
    V shifted = b.CreateLShr(x, b.CreateSelect(within, y, number(0)));
    return b.CreateSelect(within, shifted, number(0));
  }
  C less(V x, V y) {
    return b.CreateICmp(
        isUnsigned ? llvm::CmpInst::ICMP_ULT : llvm::CmpInst::ICMP_SLT, x, y);
  }
  C lessEqual(V x, V y) {
    return b.CreateICmp(
        isUnsigned ? llvm::CmpInst::ICMP_ULE : llvm::CmpInst::ICMP_SLE, x, y);
  }
  C equal(V x, V y) { return b.CreateICmpEQ(x, y); }

private:
  int64_t bits() { return b.bitsOf(b.typeOf(like)); }
  /// As unsigned numbers, negative ones are beyond the bits, too.
  C isShift(V y) { return b.CreateICmpULT(y, number(bits())); }
  /// A quotient overflows only for the divisor -1: `y` is replaced by 1 there;
  /// returns where.
  C safe(V &y) {
    C minusOne = b.CreateICmpEQ(y, number(-1));
    y = b.CreateSelect(minusOne, number(1), y);
    return minusOne;
  }

  B &b;
  V like;
  bool isUnsigned;
  llvm::function_ref<V(V)> nonZero;
};

template <typename B> auto IntegerElements<B>::pow(V base, V exponent) -> V {
  typename B::T type = b.typeOf(base);
  C negative = isUnsigned ? b.integer(b.withElement(type, b.getInt1Ty()), 0)
                          : b.CreateICmpSLT(exponent, number(0));
  // Beyond 63 only 0 and +-1 do not overflow; they need the parity.
  V odd = b.CreateAnd(exponent, number(1));
  C large = b.CreateICmpUGT(exponent, number(63));
  V e = b.CreateSelect(large, b.CreateAdd(odd, number(62)), exponent);
  V power = base, result = number(1);
  for (int bit = 0; bit < 6; ++bit) {
    C set =
        b.CreateICmpNE(b.CreateAnd(e, number(int64_t(1) << bit)), number(0));
    result = b.CreateSelect(set, b.CreateMul(result, power), result);
    power = b.CreateMul(power, power);
  }
  // 1 / x^n: 1 for 1, +-1 for -1, else 0.
  C isOne = b.CreateICmpEQ(base, number(1));
  C isMinusOne = b.CreateICmpEQ(base, number(-1));
  V sign =
      b.CreateSelect(b.CreateICmpEQ(odd, number(1)), number(-1), number(1));
  V inverse = b.CreateSelect(isOne, number(1),
                             b.CreateSelect(isMinusOne, sign, number(0)));
  return b.CreateSelect(negative, inverse, result);
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_ELEMENTS_H
