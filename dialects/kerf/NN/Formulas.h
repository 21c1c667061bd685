//===- Formulas.h - longer meanings of ops ----------------------*- C++ -*-===//
//
// What an op does to one element is an expression beside its definition (.td).
// These are the longer ones, over the same `s` (Elements.h). Each step is a
// statement of its own where the order of steps is seen in generated code.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_FORMULAS_H
#define KERF_NN_FORMULAS_H

#include "llvm/ADT/APFloat.h"

#include <cmath>

namespace kerf::nn {

/// NaN and both zeros stay.
template <typename S> auto sign(S &s, typename S::V x) {
  auto positive = s.less(s.number(0), x);
  auto negative = s.less(x, s.number(0));
  return s.select(positive, s.number(1), s.select(negative, s.number(-1), x));
}

/// NaN stays.
template <typename S> auto relu(S &s, typename S::V x) {
  return s.selectNumber(s.less(x, s.number(0)), s.number(0), x);
}

template <typename S> auto gelu(S &s, typename S::V x) {
  auto e = s.exactly([&] { return s.erf(s.mul(x, s.number(std::sqrt(0.5)))); });
  return s.mul(s.mul(x, s.number(0.5)), s.add(e, s.number(1)));
}

/// With 1/2 (1 + tanh u) = sigmoid(2u).
template <typename S> auto geluTanh(S &s, typename S::V x) {
  double scale = 2 * std::sqrt(2 / M_PI);
  auto inner =
      s.mulAdd(s.mul(x, x), s.number(0.044715 * scale), s.number(scale));
  auto half = s.exactly([&] { return s.sigmoid(s.mul(x, inner)); });
  return s.mul(x, half);
}

/// 1 / sqrt(x + epsilon).
template <typename S> auto inverseRoot(S &s, typename S::V x, double epsilon) {
  auto shifted = s.add(x, s.number(epsilon));
  return s.div(s.number(1), s.sqrt(shifted));
}

/// Of an optimizer's step: g + d w.
template <typename S>
auto decayed(S &s, typename S::V g, typename S::V w, const llvm::APFloat &d) {
  return d.isZero() ? g : s.add(g, s.mul(w, s.number(d)));
}

} // namespace kerf::nn

#endif // KERF_NN_FORMULAS_H
