#include "kerf/Fusion/Epilogue.h"

#include "gtest/gtest.h"

using namespace kerf;

namespace {
using Step = std::pair<EpilogueStep, StepOperand>;

constexpr Step kBias{EpilogueStep::Add, StepOperand::PerColumn};
constexpr Step kAddend{EpilogueStep::Add, StepOperand::Whole};
constexpr Step kFactor{EpilogueStep::Mul, StepOperand::Number};
constexpr Step kRelu{EpilogueStep::Relu, StepOperand::None};
constexpr Step kGelu{EpilogueStep::GeluTanh, StepOperand::None};
constexpr Step kSlope{EpilogueStep::GeluTanhGradient, StepOperand::Whole};

/// How many of the steps are taken, one behind another.
size_t taken(bool isMatmul, llvm::ArrayRef<Step> steps) {
  FixedEpilogue epilogue(isMatmul);
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (!epilogue.takes(step.first, step.second))
      return number;
    epilogue.add(step.first, step.second);
  }
  return steps.size();
}

TEST(FixedEpilogue, OneStepOfEachKindInTheLibrarysOrder) {
  EXPECT_EQ(taken(true, {kFactor, kAddend, kGelu}), 3u);
  EXPECT_EQ(taken(true, {kBias, kAddend, kRelu}), 3u);
  EXPECT_EQ(taken(true, {kFactor, kFactor}), 2u); // one number
  EXPECT_EQ(taken(true, {kFactor, kBias}), 1u);
  EXPECT_EQ(taken(true, {kBias, kFactor}), 1u);
  EXPECT_EQ(taken(true, {kBias, kBias}), 1u);
  EXPECT_EQ(taken(true, {kAddend, kBias}), 1u);
  EXPECT_EQ(taken(true, {kAddend, kAddend}), 1u);
  EXPECT_EQ(taken(true, {kRelu, kAddend}), 1u);
}

TEST(FixedEpilogue, ConvolutionsHaveNeitherFactorNorGelu) {
  EXPECT_EQ(taken(false, {kBias, kAddend, kRelu}), 3u);
  EXPECT_EQ(taken(false, {kFactor}), 0u);
  EXPECT_EQ(taken(false, {kBias, kGelu}), 1u);
  EXPECT_EQ(
      taken(false, {{EpilogueStep::Normalize, StepOperand::PerColumn}, kRelu}),
      2u);
}

TEST(FixedEpilogue, ASlopeIsAllThereIs) {
  EXPECT_EQ(taken(true, {kSlope, kRelu}), 1u);
  EXPECT_EQ(taken(true, {kBias, kSlope}), 1u);
  EXPECT_EQ(taken(false, {kSlope}), 0u);
}

TEST(FixedEpilogue, OtherFunctionsAndTensorsAreKernels) {
  for (EpilogueStep step : {EpilogueStep::Tanh, EpilogueStep::Sigmoid,
                            EpilogueStep::Abs, EpilogueStep::GeluErf})
    EXPECT_EQ(taken(true, {{step, StepOperand::None}}), 0u);
  for (EpilogueStep step :
       {EpilogueStep::Mul, EpilogueStep::Div, EpilogueStep::Sub})
    for (StepOperand operand : {StepOperand::Whole, StepOperand::PerColumn})
      EXPECT_EQ(taken(true, {{step, operand}}), 0u);
  EXPECT_EQ(taken(true, {{EpilogueStep::Add, StepOperand::Number}}), 0u);
  // Of an op that does not say which step it is.
  EXPECT_EQ(taken(false, {{EpilogueStep::Some, StepOperand::Whole}, kBias}),
            2u);
}
} // namespace
