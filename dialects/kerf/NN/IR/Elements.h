//===- Elements.h - the meaning of ops on one element -----------*- C++ -*-===//
//
// Problem: folding, the interpreter and generated code for CPUs and GPUs must
// give an op the same meaning, each on its own values: numbers of this process,
// LLVM IR, arith ops, other nn ops.
//
// Idea: an op's definition (.td) states its meaning once, as a method over `s`,
// which has the operations on elements of type S::V (and S::C, a condition).
// visitOps finds the method of an op that is known only as an Operation, so no
// phase has a list of ops.
//
// What `s` has, for floats:
//
//   number(a), add, sub, mul, div, neg, mulAdd(x, y, z) = x y + z
//   abs, copySign(x, y) with y's, sqrt, floor, ceil, round (half to even), max
//   and min (NaN if either is), rem (truncated, as fmod) and mod (sign of the
//   divisor) exp, log, erf, tanh, sigmoid, sin, cos, pow(x, y, constant), where
//   constant() may give y as a number
//   less, lessEqual, equal, isNaN: conditions
//   select(c, x, y), and selectNumber, which optimizers do not transform where
//   x or y may be NaN; exactly(f): f() with no multiply-add formed
//
// and for integers of 64 bits at most, which wrap: number, add, sub, mul, neg,
// abs, sign, max, min, div (towards zero), mod, rem, pow, bitAnd, bitOr,
// bitXor, invert, shiftLeft, shiftRight (of a negative number: rounds down),
// less, lessEqual, equal. Divisors are not 0; a shift by a negative number or
// by all bits of the type leaves the sign alone (right) or nothing (left).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_ELEMENTS_H
#define KERF_NN_IR_ELEMENTS_H

#include "kerf/NN/NN.h"

#include <algorithm>

namespace kerf::nn {

namespace detail {
template <typename... Ops> struct OpList {
  template <typename Visit>
  static bool visit(mlir::Operation *op, Visit &&visit) {
    return (visitOne<Ops>(op, visit) || ...);
  }

private:
  template <typename Op, typename Visit>
  static bool visitOne(mlir::Operation *op, Visit &&visit) {
    auto typed = llvm::dyn_cast<Op>(op);
    return typed && visit(typed);
  }
};
using AllOps = OpList<
#define GET_OP_LIST
#include "kerf/NN/NNOps.cpp.inc"
    >;
} // namespace detail

/// Calls `visit`, a generic function, with the op as its own class; false if it
/// is not an op of nn.
template <typename Visit> bool visitOps(mlir::Operation *op, Visit visit) {
  return detail::AllOps::visit(op, visit);
}

/// Whether a class of ops has a meaning on floats, or on integers.
template <typename Op> constexpr bool isOnFloats() {
  if constexpr (Op::template hasTrait<ByElement>())
    return Op::kIsOnFloats;
  return false;
}
template <typename Op> constexpr bool isOnIntegers() {
  if constexpr (Op::template hasTrait<ByElement>())
    return Op::kIsOnIntegers;
  return false;
}

/// Floats of this process.
struct HostFloats {
  using V = double;
  using C = bool;

  V number(double value) const { return value; }
  V number(const llvm::APFloat &value) const { return value.convertToDouble(); }
  V add(V x, V y) const { return x + y; }
  V sub(V x, V y) const { return x - y; }
  V mul(V x, V y) const { return x * y; }
  V div(V x, V y) const { return x / y; }
  V mulAdd(V x, V y, V z) const { return x * y + z; }
  V neg(V x) const { return -x; }
  V abs(V x) const { return std::fabs(x); }
  V copySign(V x, V y) const { return std::copysign(x, y); }
  V sqrt(V x) const { return std::sqrt(x); }
  V floor(V x) const { return std::floor(x); }
  V ceil(V x) const { return std::ceil(x); }
  V round(V x) const { return std::nearbyint(x); }
  V max(V x, V y) const {
    return std::isnan(x) || std::isnan(y) ? std::nan("") : std::max(x, y);
  }
  V min(V x, V y) const {
    return std::isnan(x) || std::isnan(y) ? std::nan("") : std::min(x, y);
  }
  V rem(V x, V y) const { return std::fmod(x, y); }
  V mod(V x, V y) const {
    V rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
  V exp(V x) const { return std::exp(x); }
  V log(V x) const { return std::log(x); }
  V erf(V x) const { return std::erf(x); }
  V tanh(V x) const { return std::tanh(x); }
  V sigmoid(V x) const { return 1 / (1 + std::exp(-x)); }
  V sin(V x) const { return std::sin(x); }
  V cos(V x) const { return std::cos(x); }
  template <typename Constant> V pow(V x, V y, Constant) const {
    return std::pow(x, y);
  }
  C less(V x, V y) const { return x < y; }
  C lessEqual(V x, V y) const { return x <= y; }
  C equal(V x, V y) const { return x == y; }
  C isNaN(V x) const { return std::isnan(x); }
  V select(C c, V x, V y) const { return c ? x : y; }
  V selectNumber(C c, V x, V y) const { return c ? x : y; }
  template <typename F> auto exactly(F f) const { return f(); }
};

/// Integers of this process, of 64 bits; narrower ones are truncated when they
/// are stored.
struct HostIntegers {
  using V = int64_t;
  using C = bool;
  bool isUnsigned = false;

  V number(int64_t value) const { return value; }
  V add(V x, V y) const { return V(uint64_t(x) + uint64_t(y)); }
  V sub(V x, V y) const { return V(uint64_t(x) - uint64_t(y)); }
  V mul(V x, V y) const { return V(uint64_t(x) * uint64_t(y)); }
  V neg(V x) const { return sub(0, x); }
  V abs(V x) const { return less(x, 0) ? neg(x) : x; }
  V sign(V x) const { return V(less(0, x)) - V(less(x, 0)); }
  V max(V x, V y) const { return less(x, y) ? y : x; }
  V min(V x, V y) const { return less(y, x) ? y : x; }
  V div(V x, V y) const {
    if (isUnsigned)
      return V(uint64_t(x) / uint64_t(y));
    return y == -1 ? neg(x) : x / y;
  }
  V rem(V x, V y) const {
    if (isUnsigned)
      return V(uint64_t(x) % uint64_t(y));
    return y == -1 ? 0 : x % y;
  }
  V mod(V x, V y) const {
    V rest = rem(x, y);
    return !isUnsigned && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
  V pow(V base, V exponent) const;
  V bitAnd(V x, V y) const { return x & y; }
  V bitOr(V x, V y) const { return x | y; }
  V bitXor(V x, V y) const { return x ^ y; }
  V invert(V x) const { return ~x; }
  V shiftLeft(V x, V y) const {
    return uint64_t(y) < 64 ? V(uint64_t(x) << y) : 0;
  }
  V shiftRight(V x, V y) const {
    if (isUnsigned)
      return uint64_t(y) < 64 ? V(uint64_t(x) >> y) : 0;
    return x >> std::min(uint64_t(y), uint64_t(63));
  }
  C less(V x, V y) const {
    return isUnsigned ? uint64_t(x) < uint64_t(y) : x < y;
  }
  C lessEqual(V x, V y) const { return !less(y, x); }
  C equal(V x, V y) const { return x == y; }
};

/// A negative power is 1 / x^n: 0 except for 1 and -1.
inline int64_t HostIntegers::pow(V base, V exponent) const {
  V result = 1;
  if (less(exponent, 0))
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  for (auto left = uint64_t(exponent); left; left >>= 1, base = mul(base, base))
    if (left & 1)
      result = mul(result, base);
  return result;
}

} // namespace kerf::nn

#endif // KERF_NN_IR_ELEMENTS_H
