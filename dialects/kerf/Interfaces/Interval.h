//===- Interval.h - what is known of the elements of a value ----*- C++ -*-===//
//
// Problem: a rank's part of a sum may be 0 where the sum is not. A product of
// parts with infinity is then NaN where the product of the sum is infinite, and
// so is a quotient of parts by 0. Partial sums may pass through an op only
// where what multiplies them is never infinite, what divides them never 0.
//
// Idea: interval arithmetic. Each op says which values its results may hold,
// given those of its operands (IntervalInterface); an op that says nothing may
// give anything. The function's inputs are whatever the user gives, parameters
// are finite (docs/Verification.md).
//
// Invariants: every element that is not NaN lies in the interval; NaN is never
// excluded, for a NaN factor gives NaN however a sum is taken apart. A bound
// at the end of the element type's range means "finite, no bound known". Sums
// and products of finite numbers are taken to stay finite (to sum parts in
// another order presumes it already), but for types of little range (float16),
// and but for bounds that are known to be too large.
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
  /// None of them is 0, though some may be smaller and some larger.
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

  // What follows is of exact numbers, before they are rounded to a type.
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

/// What an element of this type is when it is finite, and nothing more is
/// known.
Interval finiteOf(mlir::Type element);
/// `exact` in an element type: integers wrap around, what is too large for a
/// float is infinite, or finite with no known bound if `isAssumedFinite`; what
/// is too small may be 0.
Interval roundTo(Interval exact, mlir::Type element, bool isAssumedFinite);

/// The intervals of all values of a block, worked out in program order: linear
/// in the ops and the elements of constants. Values from elsewhere may be
/// anything.
class Intervals {
public:
  explicit Intervals(mlir::Block &block);

  Interval of(mlir::Value value) const;
  /// Whether partial sums may pass through the linear group `group` of the
  /// op's rule: of the other operands, what multiplies is finite, what divides
  /// is not 0.
  bool letsPass(mlir::Operation *op, const ShardingRule &rule,
                unsigned group) const;

private:
  llvm::DenseMap<mlir::Value, Interval> known;
};

} // namespace kerf

#endif // KERF_INTERFACES_INTERVAL_H
