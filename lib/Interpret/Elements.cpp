//===- Elements.cpp - ops on one element, in doubles ----------------------===//
//
// The definitions of elementwise ops (kerf/NN/IR/Elements.h) on doubles.
// Integers are doubles as well and do not wrap here, so that overflow can be
// noticed.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/IR/Elements.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

struct Integers : nn::HostFloats {
  /// 2 to the power of its bits.
  double modulus = 2;
  unsigned bits = 1;
  bool isUnsigned = false;

  V sign(V x) const { return double((x > 0) - (x < 0)); }
  V div(V x, V y) const { return std::trunc(x / y); }
  V mod(V x, V y) const { return x - std::floor(x / y) * y; }
  V pow(V x, V y) const { return std::trunc(std::pow(x, y)); }
  V invert(V x) const { return isUnsigned ? modulus - 1 - x : -1 - x; }
  V bitAnd(V x, V y) const { return fromWord(word(x) & word(y)); }
  V bitOr(V x, V y) const { return fromWord(word(x) | word(y)); }
  V bitXor(V x, V y) const { return fromWord(word(x) ^ word(y)); }
  /// Bits that are shifted out are no overflow. Every step is exact.
  V shiftLeft(V x, V y) const {
    if (!isWithin(y))
      return 0;
    double rest = std::fmod(std::ldexp(x, int(y)), modulus);
    double end = isUnsigned ? modulus : modulus / 2;
    return rest >= end            ? rest - modulus
           : rest < end - modulus ? rest + modulus
                                  : rest;
  }
  V shiftRight(V x, V y) const {
    return std::floor(std::ldexp(x, -int(isWithin(y) ? y : bits)));
  }

private:
  bool isWithin(V shift) const { return shift >= 0 && shift < bits; }
  /// A number that 64 bits cannot hold gives some bits.
  static uint64_t word(V x) {
    if (x >= 0x1p63)
      return x < 0x1p64 ? uint64_t(x) : 0;
    return x >= -0x1p63 ? uint64_t(int64_t(x)) : 0;
  }
  V fromWord(uint64_t word) const {
    return isUnsigned ? V(word) : V(int64_t(word));
  }
};

template <typename Op> double onFloats(Operation *op, ArrayRef<double> x) {
  const nn::HostFloats s;
  return cast<Op>(op).onFloats(s, x);
}

template <typename Op> double onIntegers(Operation *op, ArrayRef<double> x) {
  auto type = cast<IntegerType>(getElementTypeOrSelf(op->getOperand(0)));
  Integers s;
  s.isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  s.bits = type.getWidth();
  s.modulus = std::ldexp(1.0, int(s.bits));
  return cast<Op>(op).onIntegers(s, x);
}

} // namespace

ElementFunction kerf::interpret::findElementFunction(Operation *op) {
  ElementFunction function = nullptr;
  if (op->getNumOperands() == 0)
    return function;
  bool isFloat =
      isa<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType()));
  nn::visitOps(op, [&](auto typed) {
    using Op = decltype(typed);
    if constexpr (nn::isOnFloats<Op>())
      if (isFloat)
        function = onFloats<Op>;
    if constexpr (nn::isOnIntegers<Op>())
      if (!isFloat)
        function = onIntegers<Op>;
    return true;
  });
  return function;
}
