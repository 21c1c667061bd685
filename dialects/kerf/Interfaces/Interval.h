//===- Interval.h - bounds of the elements of a value -----------*- C++ -*-===//
//
// Problem: a rank's part of a sum may be 0 where the sum is not. 0 times
// infinity is NaN where the product of the whole sum is infinite, and so is 0
// divided by 0. Partial sums may pass through an op only if their factor is
// never infinite and their divisor never 0.
//
// Idea: interval arithmetic. Each op states which values its results may hold,
// given those of its operands (IntervalInterface); an op without the interface
// may give any value. Inputs of the function may hold any value, parameters are
// finite (docs/Verification.md).
//
// Invariants: every element that is not NaN lies in the interval; NaN is never
// excluded, since a NaN factor gives NaN whether or not the sum is divided into
// parts. A bound at the end of the element type's range means "finite, bound
// unknown". Sums and products of finite numbers are assumed to be finite
// (adding parts in another order assumes it too), except in types of small
// range (float16) and for bounds that are known to be too large.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_INTERVAL_H
#define KERF_INTERFACES_INTERVAL_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <limits>

namespace kerf {

struct ShardingRule;

/// low <= every element that is not NaN <= high; none where low > high.
struct Interval {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = -kInfinity;
  double high = kInfinity;
  /// No element is 0; the interval may still contain both signs.
  bool isNonZero = false;

  static Interval all() { return {}; }
  static Interval none() { return {kInfinity, -kInfinity}; }
  static Interval of(double value) { return {value, value}; }
  static Interval within(double bound) { return {-bound, bound}; }
  /// The elements of a constant.
  static Interval of(mlir::DenseElementsAttr elements);

  bool isNone() const { return low > high; }
  bool isFinite() const {
    return isNone() || (low > -kInfinity && high < kInfinity);
  }
  bool mayBeZero() const {
    return !isNone() && !isNonZero && low <= 0 && high >= 0;
  }
  /// The largest magnitude.
  double magnitude() const;

  // The following are exact, before rounding to a type.
  friend Interval join(Interval a, Interval b);
  friend Interval minimum(Interval a, Interval b);
  friend Interval maximum(Interval a, Interval b);
  friend Interval absolute(Interval x);
  friend Interval operator-(Interval x);
  friend Interval operator+(Interval a, Interval b);
  friend Interval operator-(Interval a, Interval b);
  friend Interval operator*(Interval a, Interval b);
  friend Interval square(Interval x);
  friend Interval reciprocal(Interval x);
  friend Interval squareRoot(Interval x);
  friend Interval exponential(Interval x);
  friend Interval logarithm(Interval x);
  /// x ^ y; anything, unless y is one number.
  friend Interval power(Interval x, Interval y);
  /// The sum or the product of `count` elements.
  friend Interval sumOf(Interval x, int64_t count);
  friend Interval productOf(Interval x, int64_t count);
};

/// The interval of a finite element of this type about which nothing else is
/// known.
Interval finiteOf(mlir::Type element);
/// `exact` rounded to an element type: integers wrap around; a number too large
/// for a float becomes infinite, or finite with an unknown bound if
/// `isAssumedFinite`; one too small may become 0.
Interval roundTo(Interval exact, mlir::Type element, bool isAssumedFinite);

/// The intervals of all values of a block, computed in program order: linear in
/// the ops and the elements of constants. Values from outside may hold
/// anything.
class Intervals {
public:
  explicit Intervals(mlir::Block &block);

  Interval of(mlir::Value value) const;
  /// Whether partial sums may pass through the linear group `group` of the op's
  /// rule: operands that multiply them are finite, operands that divide them
  /// are not 0.
  bool letsPass(mlir::Operation *op, const ShardingRule &rule,
                unsigned group) const;

private:
  llvm::DenseMap<mlir::Value, Interval> known;
};

} // namespace kerf

#endif // KERF_INTERFACES_INTERVAL_H
