//===- LearningRateTest.cpp - learning rates and bias corrections ---------===//
#include "kerf/rt/train.h"

#include <gmock/gmock.h>

using namespace kerf::rt;
using testing::HasSubstr;

// PyTorch 2.15: SequentialLR of LambdaLR(lambda t: (t + 1) / 4) and
// CosineAnnealingLR(T_max=8, eta_min=1e-5); LinearLR(1, 0.25, 10); LambdaLR.
TEST(LearningRates, AsPyTorch) {
  auto expect = [](const char *text, const std::vector<double> &values) {
    LearningRate rate;
    ASSERT_EQ(parseLearningRate(text, rate), "");
    for (size_t t = 0; t < values.size(); ++t)
      EXPECT_NEAR(rate.at(t), values[t], 1e-12 * values[t] + 1e-16) << text;
  };
  expect("cosine,lr=3e-4,warmup=4,min=1e-5,steps=12",
         {7.5e-05, 0.00015, 0.000225, 0.0003, 0.0003, 0.000288962532214,
          0.000257530483272, 0.000210489097693, 0.000155, 9.95109023071e-05,
          5.2469516728e-05, 2.10374677859e-05, 1e-05});
  expect("linear,lr=0.1,min=0.025,steps=10",
         {0.1, 0.0925, 0.085, 0.0775, 0.07, 0.0625, 0.055, 0.0475, 0.04, 0.0325,
          0.025, 0.025, 0.025});
  expect("step,lr=0.1,every=3,factor=0.5",
         {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025});
  expect("step,lr=0.1,every=2,min=0.005,warmup=2",
         {0.05, 0.1, 0.1, 0.1, 0.01, 0.01, 0.005, 0.005});
  expect("exponential,lr=0.1,every=2,factor=0.25",
         {0.1, 0.05, 0.025, 0.0125, 0.00625});
  expect("constant,lr=0.1,warmup=3",
         {0.0333333333333, 0.0666666666667, 0.1, 0.1, 0.1, 0.1});
}

TEST(LearningRates, Refused) {
  LearningRate rate;
  EXPECT_THAT(parseLearningRate("sine", rate), HasSubstr("'sine'"));
  EXPECT_THAT(parseLearningRate("cosine,warm=3", rate), HasSubstr("'warm'"));
  EXPECT_THAT(parseLearningRate("cosine,warmup=2.5", rate),
              HasSubstr("number of steps"));
  EXPECT_THAT(parseLearningRate("linear,lr=-1", rate), HasSubstr("'lr=-1'"));
  EXPECT_THAT(parseLearningRate("linear,lr=", rate), HasSubstr("'lr='"));
  LearningRate constant;
  EXPECT_THAT(parseLearningRate("constant,steps=7", constant),
              HasSubstr("steps is where linear and cosine end"));
  LearningRate steps;
  EXPECT_THAT(parseLearningRate("step,factor=0.5", steps),
              HasSubstr("every=STEPS is missing"));
  EXPECT_THAT(parseLearningRate("step,every=3,factor=2", rate),
              HasSubstr("'factor=2'"));
  EXPECT_THAT(parseLearningRate("cosine,every=3", rate),
              HasSubstr("every and factor are for step and exponential"));
}

TEST(LearningRates, BiasCorrections) {
  EXPECT_DOUBLE_EQ(biasCorrection(0.9, 1), 0.1 + 0);
  EXPECT_NEAR(biasCorrection(0.999, 1000), 0.63230457522903596, 1e-15);
}
