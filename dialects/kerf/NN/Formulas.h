//===- Formulas.h - longer meanings of ops ----------------------*- C++ -*-===//
//
// An op's effect on one element is an expression beside its definition (.td).
// These are the longer expressions, over the same `s` (Elements.h). Each step
// is a statement of its own where generated code depends on the order of steps.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_FORMULAS_H
#define KERF_NN_FORMULAS_H

#include "llvm/ADT/APFloat.h"

#include <cmath>

namespace kerf::nn {

/// NaN and both zeros are returned unchanged.
template <typename S> auto sign(S &s, typename S::V x) {
  auto positive = s.less(s.number(0), x);
  auto negative = s.less(x, s.number(0));
  return s.select(positive, s.number(1), s.select(negative, s.number(-1), x));
}

/// NaN is returned unchanged.
template <typename S> auto relu(S &s, typename S::V x) {
  return s.selectNumber(s.less(x, s.number(0)), s.number(0), x);
}

template <typename S> auto gelu(S &s, typename S::V x) {
  auto e = s.exactly([&] { return s.erf(s.mul(x, s.number(std::sqrt(0.5)))); });
  return s.mul(s.mul(x, s.number(0.5)), s.add(e, s.number(1)));
}

/// Uses 1/2 (1 + tanh u) = sigmoid(2u).
template <typename S> auto geluTanh(S &s, typename S::V x) {
  double scale = 2 * std::sqrt(2 / M_PI);
  auto inner =
      s.mulAdd(s.mul(x, x), s.number(0.044715 * scale), s.number(scale));
  auto half = s.exactly([&] { return s.sigmoid(s.mul(x, inner)); });
  return s.mul(x, half);
}

/// P(x) + x p(x) with the distribution P of the normal law and its density p.
template <typename S> auto geluSlope(S &s, typename S::V x) {
  auto e = s.erf(s.mul(x, s.number(std::sqrt(0.5))));
  auto exp = s.exp(s.mul(s.mul(x, x), s.number(-0.5)));
  auto density = s.mul(exp, s.number(1 / std::sqrt(2 * M_PI)));
  auto below = s.mul(s.add(e, s.number(1)), s.number(0.5));
  return s.add(below, s.mul(x, density));
}

/// With t = tanh(s (x + c x^3)):
///   1/2 (1 + t) + x/2 (1 - t^2) s (1 + 3 c x^2).
template <typename S> auto geluTanhSlope(S &s, typename S::V x) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  auto one = s.number(1);
  auto square = s.mul(x, x);
  auto cube = s.mul(x, s.add(s.mul(square, s.number(cubic)), one));
  auto t = s.tanh(s.mul(cube, s.number(scale)));
  auto slope = s.mul(s.add(s.mul(square, s.number(3 * cubic)), one),
                     s.number(scale / 2));
  auto below = s.mul(s.add(t, one), s.number(0.5));
  auto rise = s.mul(s.mul(x, s.sub(one, s.mul(t, t))), slope);
  return s.add(below, rise);
}

// The next functions keep their relative accuracy for small results. exp(x) is
// accurate to a few units in the last place, but exp(x) - 1 near 0 would have
// no correct digits left. The error that 1 + x makes by rounding is corrected
// by a quotient (Kahan).

/// log(1 + x).
template <typename S> auto logOfOneAnd(S &s, typename S::V x) {
  auto sum = s.add(s.number(1), x);
  auto kept = s.sub(sum, s.number(1));
  auto log = s.log(sum);
  auto near =
      s.selectNumber(s.equal(kept, s.number(0)), x, s.mul(log, s.div(x, kept)));
  return s.selectNumber(s.less(s.number(1e8), x), log, near);
}

template <typename S> auto log1p(S &s, typename S::V x) {
  return s.exactly([&] { return logOfOneAnd(s, x); });
}

/// exp(x) - 1 for x from 0 to 20.
template <typename S> auto expLessOne(S &s, typename S::V x) {
  auto exp = s.exp(x);
  auto less = s.sub(exp, s.number(1));
  return s.selectNumber(s.equal(less, s.number(0)), x,
                        s.mul(less, s.div(x, s.log(exp))));
}

/// exp(x) / 2 for x >= 0; finite even where exp(x) overflows.
template <typename S> auto halfExp(S &s, typename S::V x) {
  auto root = s.exp(s.mul(x, s.number(0.5)));
  return s.mul(s.mul(root, s.number(0.5)), root);
}

template <typename S> auto sinh(S &s, typename S::V x) {
  return s.exactly([&] {
    auto size = s.abs(x);
    auto e = expLessOne(s, size);
    auto near = s.mul(s.add(e, s.div(e, s.add(e, s.number(1)))), s.number(0.5));
    return s.copySign(
        s.selectNumber(s.less(s.number(20), size), halfExp(s, size), near), x);
  });
}

template <typename S> auto cosh(S &s, typename S::V x) {
  return s.exactly([&] {
    auto half = halfExp(s, s.abs(x));
    return s.add(half, s.div(s.number(0.25), half));
  });
}

/// Beyond 1e8 the square root is x itself.
template <typename S> auto asinh(S &s, typename S::V x) {
  return s.exactly([&] {
    auto size = s.abs(x);
    auto square = s.mul(size, size);
    auto root = s.sqrt(s.add(square, s.number(1)));
    auto near =
        logOfOneAnd(s, s.add(size, s.div(square, s.add(root, s.number(1)))));
    auto far = s.add(s.log(size), s.number(M_LN2));
    return s.copySign(s.selectNumber(s.less(s.number(1e8), size), far, near),
                      x);
  });
}

template <typename S> auto acosh(S &s, typename S::V x) {
  return s.exactly([&] {
    auto above = s.sub(x, s.number(1));
    auto root = s.sqrt(s.mul(above, s.add(above, s.number(2))));
    auto near = logOfOneAnd(s, s.add(above, root));
    auto far = s.add(s.log(x), s.number(M_LN2));
    return s.selectNumber(s.less(s.number(1e8), x), far, near);
  });
}

template <typename S> auto atanh(S &s, typename S::V x) {
  return s.exactly([&] {
    auto size = s.abs(x);
    auto ratio = s.div(s.mul(size, s.number(2)), s.sub(s.number(1), size));
    return s.copySign(s.mul(logOfOneAnd(s, ratio), s.number(0.5)), x);
  });
}

/// With tan(pi/8) and tan(3 pi/8) as borders, atan |x| is atan t, pi/4 + atan t
/// or pi/2 + atan t, where |t| <= tan(pi/8). There atan t = t + t z P(z) with
/// z = t^2, to 5e-18. Infinity gives t = -0, NaN itself.
template <typename S> auto atan(S &s, typename S::V x) {
  return s.exactly([&] {
    auto size = s.abs(x);
    auto middle = s.less(s.number(M_SQRT2 - 1), size);
    auto far = s.less(s.number(M_SQRT2 + 1), size);
    auto above = s.sub(size, s.number(1));
    auto below = s.add(size, s.number(1));
    auto over =
        s.select(far, s.number(-1), s.selectNumber(middle, above, size));
    auto under =
        s.selectNumber(far, size, s.selectNumber(middle, below, s.number(1)));
    auto t = s.div(over, under);
    auto z = s.mul(t, t);
    // The polynomial through 11 Chebyshev points of z in [0, tan(pi/8)^2].
    auto p = s.number(-0.01917688711906226);
    for (double coefficient :
         {0.03923165829558719, -0.0508544973794026, 0.0585814891280221,
          -0.06664511447381948, 0.07692183190826087, -0.09090904578123903,
          0.11111111015256361, -0.14285714284666542, 0.1999999999999552,
          -0.3333333333333333})
      p = s.mulAdd(p, z, s.number(coefficient));
    auto near = s.mulAdd(s.mul(p, z), t, t);
    auto base = s.select(far, s.number(M_PI_2),
                         s.select(middle, s.number(M_PI_4), s.number(0)));
    return s.copySign(s.add(base, near), x);
  });
}

/// atan(x / sqrt(1 - x^2)), where the root keeps its digits near 1.
template <typename S> auto asin(S &s, typename S::V x) {
  return s.exactly([&] {
    auto below = s.sub(s.number(1), x);
    auto above = s.add(x, s.number(1));
    return atan(s, s.div(x, s.sqrt(s.mul(below, above))));
  });
}

/// 2 atan(sqrt((1 - x) / (1 + x))), which is pi at -1, where the quotient is
/// infinite.
template <typename S> auto acos(S &s, typename S::V x) {
  return s.exactly([&] {
    auto below = s.sub(s.number(1), x);
    auto above = s.add(x, s.number(1));
    return s.mul(atan(s, s.sqrt(s.div(below, above))), s.number(2));
  });
}

/// 1 / sqrt(x + epsilon).
template <typename S> auto inverseRoot(S &s, typename S::V x, double epsilon) {
  auto shifted = s.add(x, s.number(epsilon));
  return s.div(s.number(1), s.sqrt(shifted));
}

/// The gradient with weight decay in an optimizer's step: g + d w.
template <typename S>
auto decayed(S &s, typename S::V g, typename S::V w, const llvm::APFloat &d) {
  return d.isZero() ? g : s.add(g, s.mul(w, s.number(d)));
}

} // namespace kerf::nn

#endif // KERF_NN_FORMULAS_H
