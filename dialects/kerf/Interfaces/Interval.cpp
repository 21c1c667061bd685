//===- Interval.cpp - interval arithmetic ---------------------------------===//
//
// Bounds are doubles, and their rounding does not matter: the questions are
// only whether a value may be infinite or 0. float64 gets the range [1e-150,
// 1e150], so that products of two bounds can still be told from infinity.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interfaces/Interval.h"

#include "kerf/Interfaces/ShardingRule.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {

/// The magnitudes of a type's finite elements other than 0.
struct Magnitudes {
  double smallest, largest;
};

Magnitudes magnitudesOf(FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  auto wide = [](llvm::APFloat value) {
    bool losesInfo;
    value.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return value.convertToDouble();
  };
  constexpr double kLargest = 1e150;
  return {
      std::max(wide(llvm::APFloat::getSmallestNormalized(semantics)),
               1 / kLargest),
      std::min(wide(llvm::APFloat::getLargest(semantics)), kLargest),
  };
}

Interval rangeOf(IntegerType type) {
  auto bits = static_cast<int>(type.getWidth());
  if (bits == 1)
    return {0, 1};
  if (type.isUnsigned())
    return {0, std::ldexp(1.0, bits) - 1};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
}

/// Whether sums, products and powers overflow easily: types of small range.
bool hasLittleRange(FloatType type) { return magnitudesOf(type).largest < 1e9; }

/// The product of bounds 0 and infinity is 0: NaN does not count.
double timesBound(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

Interval hull(std::initializer_list<double> bounds) {
  return {std::min(bounds), std::max(bounds)};
}

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

} // namespace

Interval Interval::of(DenseElementsAttr elements) {
  Interval found = none();
  auto take = [&](double value) {
    if (!std::isnan(value))
      found = join(found, of(value));
  };
  auto takeAll = [&](auto values) {
    for (const auto &value : values)
      take(static_cast<double>(value));
  };
  Type element = elements.getElementType();
  if (auto integer = dyn_cast<IntegerType>(element)) {
    auto takeInteger = [&](const APInt &value) {
      take(value.roundToDouble(!integer.isUnsigned() &&
                               value.getBitWidth() > 1));
    };
    if (elements.isSplat())
      takeInteger(elements.getSplatValue<APInt>());
    else
      llvm::for_each(elements.getValues<APInt>(), takeInteger);
  } else if (elements.isSplat()) {
    APFloat value = elements.getSplatValue<APFloat>();
    bool losesInfo;
    value.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    take(value.convertToDouble());
  } else if (element.isF32()) {
    takeAll(elements.getValues<float>());
  } else if (element.isF64()) {
    takeAll(elements.getValues<double>());
  } else if (isa<FloatType>(element)) {
    for (APFloat value : elements.getValues<APFloat>()) {
      bool losesInfo;
      value.convert(llvm::APFloat::IEEEdouble(),
                    llvm::APFloat::rmNearestTiesToEven, &losesInfo);
      take(value.convertToDouble());
    }
  } else {
    return all();
  }
  return found;
}

double Interval::magnitude() const {
  return isNone() ? 0 : std::max(std::abs(low), std::abs(high));
}

Interval kerf::finiteOf(Type element) {
  if (auto type = dyn_cast<FloatType>(element))
    return Interval::within(magnitudesOf(type).largest);
  return roundTo(Interval::all(), element, false);
}

Interval kerf::roundTo(Interval exact, Type element, bool isAssumedFinite) {
  if (exact.isNone())
    return exact;
  if (auto type = dyn_cast<IntegerType>(element)) {
    Interval range = rangeOf(type);
    bool fits = exact.low >= range.low && exact.high <= range.high;
    return fits ? exact : range;
  }
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return Interval::all();
  Magnitudes magnitudes = magnitudesOf(type);
  auto round = [&](double bound) {
    double magnitude = std::abs(bound);
    if (magnitude < magnitudes.smallest)
      return 0.0;
    if (magnitude <= magnitudes.largest)
      return bound;
    bool isFinite = isAssumedFinite && magnitude < Interval::kInfinity &&
                    !hasLittleRange(type);
    return std::copysign(isFinite ? magnitudes.largest : Interval::kInfinity,
                         bound);
  };
  return {round(exact.low), round(exact.high), exact.isNonZero};
}

namespace kerf {

Interval join(Interval a, Interval b) {
  if (a.isNone() || b.isNone())
    return a.isNone() ? b : a;
  return {std::min(a.low, b.low), std::max(a.high, b.high),
          !a.mayBeZero() && !b.mayBeZero()};
}

Interval minimum(Interval a, Interval b) {
  if (a.isNone() || b.isNone())
    return Interval::none();
  return {std::min(a.low, b.low), std::min(a.high, b.high)};
}

Interval maximum(Interval a, Interval b) {
  if (a.isNone() || b.isNone())
    return Interval::none();
  return {std::max(a.low, b.low), std::max(a.high, b.high)};
}

Interval absolute(Interval x) {
  if (x.isNone())
    return x;
  if (x.low <= 0 && x.high >= 0)
    return {0, x.magnitude()};
  return hull({std::abs(x.low), std::abs(x.high)});
}

Interval operator-(Interval x) { return {-x.high, -x.low, x.isNonZero}; }

Interval operator+(Interval a, Interval b) {
  if (a.isNone() || b.isNone())
    return Interval::none();
  Interval sum{a.low + b.low, a.high + b.high};
  // Infinities of opposite signs meet: nothing is known of the sum.
  return std::isnan(sum.low) || std::isnan(sum.high) ? Interval::all() : sum;
}

Interval operator-(Interval a, Interval b) { return a + -b; }

Interval operator*(Interval a, Interval b) {
  if (a.isNone() || b.isNone())
    return Interval::none();
  return hull({timesBound(a.low, b.low), timesBound(a.low, b.high),
               timesBound(a.high, b.low), timesBound(a.high, b.high)});
}

Interval square(Interval x) {
  Interval magnitude = absolute(x);
  return magnitude * magnitude;
}

/// A quotient is rounded once, a product with a reciprocal twice: bounds are
/// moved outwards by one number, but not to 0 or beyond it.
Interval reciprocal(Interval x) {
  if (x.isNone())
    return x;
  if (x.low <= 0 && x.high >= 0)
    return Interval::all();
  auto towards = [](double bound, double end) {
    double next = std::nextafter(bound, end);
    return bound == 0 || next == 0 || std::isinf(next) ? bound : next;
  };
  return {towards(1 / x.high, -Interval::kInfinity),
          towards(1 / x.low, Interval::kInfinity)};
}

Interval squareRoot(Interval x) {
  if (x.isNone() || x.high < 0)
    return Interval::none();
  return {std::sqrt(std::max(x.low, 0.0)), std::sqrt(x.high)};
}

Interval exponential(Interval x) {
  if (x.isNone())
    return x;
  return {std::exp(x.low), std::exp(x.high)};
}

Interval logarithm(Interval x) {
  if (x.isNone() || x.high < 0)
    return Interval::none();
  return {x.low <= 0 ? -Interval::kInfinity : std::log(x.low),
          std::log(x.high)};
}

Interval power(Interval x, Interval y) {
  if (y.isNone()) // 1 ^ NaN
    return Interval::of(1);
  double exponent = y.low;
  if (y.low != y.high || !std::isfinite(exponent))
    return Interval::all();
  if (exponent == 0) // of NaN too
    return Interval::of(1);
  if (x.isNone())
    return x;
  if (exponent < 0)
    return reciprocal(power(x, Interval::of(-exponent)));
  auto bounds = [&](Interval of) {
    return Interval{std::pow(of.low, exponent), std::pow(of.high, exponent)};
  };
  if (std::fmod(exponent, 2) == 0)
    return bounds(absolute(x));
  if (std::fmod(exponent, 2) == 1)
    return bounds(x);
  if (x.low == -Interval::kInfinity) // becomes infinity
    return Interval::all();
  return x.high < 0 ? Interval::none() : bounds(maximum(x, Interval::of(0)));
}

Interval sumOf(Interval x, int64_t count) {
  if (count == 0)
    return Interval::of(0);
  return x * Interval::of(static_cast<double>(count));
}

Interval productOf(Interval x, int64_t count) {
  if (count == 0)
    return Interval::of(1);
  if (x.isNone() || count == 1)
    return x;
  return Interval::within(std::max(
      std::pow(x.magnitude(), static_cast<double>(count)), x.magnitude()));
}

} // namespace kerf

Intervals::Intervals(Block &block) {
  for (Operation &op : block) {
    auto bounded = dyn_cast<IntervalInterface>(op);
    if (!bounded)
      continue;
    SmallVector<Interval> operands;
    bool isAssumedFinite = false;
    for (Value operand : op.getOperands()) {
      operands.push_back(of(operand));
      auto type = dyn_cast<FloatType>(elementOf(operand));
      isAssumedFinite |=
          type && operands.back().isFinite() &&
          operands.back().magnitude() >= magnitudesOf(type).largest;
    }
    for (OpResult result : op.getResults())
      known[result] =
          roundTo(bounded.getInterval(result.getResultNumber(), operands),
                  elementOf(result), isAssumedFinite);
  }
}

Interval Intervals::of(Value value) const {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  return roundTo(Interval::all(), elementOf(value), false);
}

bool Intervals::letsPass(Operation *op, const ShardingRule &rule,
                         unsigned group) const {
  auto isOther = [&](unsigned operand) {
    return !llvm::is_contained(rule.linearGroups[group], operand);
  };
  for (unsigned operand : rule.multipliers)
    if (isOther(operand) && !of(op->getOperand(operand)).isFinite())
      return false;
  for (unsigned operand : rule.divisors)
    if (isOther(operand) && of(op->getOperand(operand)).mayBeZero())
      return false;
  return true;
}
