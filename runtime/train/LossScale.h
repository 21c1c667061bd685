//===- LossScale.h - dynamic scaling of the loss ----------------*- C++ -*-===//
//
// Problem: gradients below 6e-8 are 0 in float16, and above 65504 infinite.
//
// Idea: the loss is multiplied by a power of two before it is differentiated,
// and gradients are divided by it before they are used. The scale doubles after
// `growEvery` steps in a row without overflow and is halved by each step whose
// gradients are not finite, which changes nothing else. Start, factors and
// interval are those of torch.amp.GradScaler.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_LOSSSCALE_H
#define KERF_RT_TRAIN_LOSSSCALE_H

#include <cstdint>

namespace kerf::rt {

struct LossScale {
  static constexpr double start = 65536;
  static constexpr int64_t growEvery = 2000;
  /// Gradients that overflow with the minimum do not fit float16 at all; above
  /// the maximum nothing is gained.
  static constexpr double min = 1.0 / (1 << 24), max = 4294967296.0;

  double value = start;
  int64_t steps = 0; ///< in a row without overflow, at this value

  /// After a step; false where the scale cannot become less.
  bool update(bool finite, int64_t interval) {
    if (finite) {
      if (++steps < interval)
        return true;
      steps = 0;
      if (value < max)
        value *= 2;
      return true;
    }
    steps = 0;
    value /= 2;
    return value >= min;
  }
};

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_LOSSSCALE_H
