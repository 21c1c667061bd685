//===- LearningRate.h - the scalars of a step -------------------*- C++ -*-===//
//
// Pure functions of the step's number. With w steps of warm-up, T steps in all
// and t counted from 0:
//
//   t < w:     base (t + 1) / w
//   constant:  base
//   linear:    base + (min - base) u,                u = (t - w) / (T - w)
//   cosine:    min + (base - min) (1 + cos(pi u)) / 2
//
// and min from step T on: PyTorch's LambdaLR for the warm-up followed by
// LinearLR (end_factor = min / base) and CosineAnnealingLR (eta_min = min).
// Adam's bias corrections 1 - beta^n count the updates that took place.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_LEARNINGRATE_H
#define KERF_RT_TRAIN_LEARNINGRATE_H

#include <cstdint>
#include <string>

namespace kerf::rt {

struct LearningRate {
  enum Kind { Constant, Linear, Cosine };
  Kind kind = Constant;
  double base = 1e-3, min = 0;
  int64_t warmup = 0;
  int64_t steps = 0; ///< 0: those of the run

  /// Of step t >= 0. `steps` must be set unless the kind is Constant.
  double at(int64_t t) const;
};

/// "constant", "linear,warmup=10,min=1e-5", "cosine,steps=1000,lr=3e-4"; or a
/// plain number. Keys: lr (base), warmup, min, steps. Empty on success, else
/// what is wrong.
std::string parseLearningRate(const std::string &text, LearningRate &rate);

/// 1 - beta^updates in double.
double biasCorrection(double beta, int64_t updates);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_LEARNINGRATE_H
