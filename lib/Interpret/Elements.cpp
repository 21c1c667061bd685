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
  /// The largest number of its type.
  double maxValue = 1;
  bool isUnsigned = false;

  V sign(V x) const { return double((x > 0) - (x < 0)); }
  V div(V x, V y) const { return std::trunc(x / y); }
  V mod(V x, V y) const { return x - std::floor(x / y) * y; }
  V pow(V x, V y) const { return std::trunc(std::pow(x, y)); }
  V invert(V x) const { return isUnsigned ? maxValue - x : -1 - x; }
  V bitAnd(V x, V y) const { return V(bits(x) & bits(y)); }
  V bitOr(V x, V y) const { return V(bits(x) | bits(y)); }
  V bitXor(V x, V y) const { return V(bits(x) ^ bits(y)); }

private:
  /// A number that 64 bits cannot hold gives some bits.
  static int64_t bits(V x) { return std::fabs(x) < 0x1p63 ? int64_t(x) : 0; }
};

template <typename Op> double onFloats(Operation *op, ArrayRef<double> x) {
  const nn::HostFloats s;
  return cast<Op>(op).onFloats(s, x);
}

template <typename Op> double onIntegers(Operation *op, ArrayRef<double> x) {
  auto type = cast<IntegerType>(getElementTypeOrSelf(op->getOperand(0)));
  Integers s;
  s.isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  s.maxValue = std::ldexp(1.0, int(type.getWidth())) - 1;
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
