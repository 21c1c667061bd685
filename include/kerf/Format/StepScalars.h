//===- StepScalars.h - names of a training step's numbers -------*- C++ -*-===//
//
// The loop of training sets some numbers for each step, as inputs of the
// program (scalars; docs/Training.md says what each is), and reads others from
// its outputs. Shared by autodiff, which makes these inputs and outputs, and by
// all who run a step.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FORMAT_STEPSCALARS_H
#define KERF_FORMAT_STEPSCALARS_H

#include <string_view>

namespace kerf {

/// No input of a model has a name that begins with this.
inline constexpr char kStepScalarPrefix[] = "train.";

// Inputs, f32.
inline constexpr char kLearningRateInput[] = "train.learning_rate";
inline constexpr char kBiasCorrection1Input[] = "train.bias_correction_1";
inline constexpr char kBiasCorrection2Input[] = "train.bias_correction_2";
inline constexpr char kGradientWeightInput[] = "train.gradient_weight";
inline constexpr char kLossScaleInput[] = "train.loss_scale";
// Inputs, i64: what dropout draws by.
inline constexpr char kSeedInput[] = "train.seed";
inline constexpr char kStepInput[] = "train.step";

// Outputs, f32: the loss is the first; the norm is there if it is asked for.
inline constexpr char kLossOutput[] = "loss";
inline constexpr char kGradientNormOutput[] = "gradient_norm";

/// Whether the loop of training sets the input of this name.
constexpr bool isStepScalar(std::string_view name) {
  constexpr std::string_view prefix = kStepScalarPrefix;
  return name.substr(0, prefix.size()) == prefix;
}

} // namespace kerf

#endif // KERF_FORMAT_STEPSCALARS_H
