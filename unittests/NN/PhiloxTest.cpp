//===- PhiloxTest.cpp - random numbers ------------------------------------===//
//
// The known-answer vectors that Random123 publishes for Philox4x32-10, and how
// nn.philox makes a counter and a float.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/IR/Philox.h"
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using Words = std::array<uint32_t, 4>;

TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(nn::philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(nn::philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                           {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(nn::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                           {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, WordsAndFloat) {
  // The third vector, in the op's terms.
  EXPECT_EQ(nn::philoxUniform(0x85a308d3243f6a88, 0x299f31d0a4093822,
                              0x13198a2e, 0x03707344),
            float(0xd16cfe09 >> 8) / float(1 << 24));
  EXPECT_EQ(nn::philoxUniform(0, 0, 0, 0), float(0x6627e8) / float(1 << 24));
}

TEST(PhiloxTest, Op) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, nn::NNDialect>();
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @main(%seed: tensor<i64>, %step: tensor<i64>) -> (tensor<4000xf32>, tensor<4000xf32>) {
      %i = nn.iota dim 0 : tensor<4000xi64>
      %a = nn.philox %i, %seed, %step {stream = 0 : i64} : (tensor<4000xi64>, tensor<i64>, tensor<i64>) -> tensor<4000xf32>
      %b = nn.philox %i, %seed, %step {stream = 1 : i64} : (tensor<4000xi64>, tensor<i64>, tensor<i64>) -> tensor<4000xf32>
      return %a, %b : tensor<4000xf32>, tensor<4000xf32>
    })",
                                            &context);
  ASSERT_TRUE(module);
  auto draw = [&](double seed, double step) {
    return *interpret::run(
        *module->getOps<func::FuncOp>().begin(),
        {interpret::Tensor({}, seed), interpret::Tensor({}, step)}, nullptr);
  };
  auto first = draw(7, 1);
  // A uniform sample: its mean, and how far its distribution function is from
  // the diagonal (Kolmogorov, at a level of 1e-6).
  for (const interpret::Tensor &sample : first) {
    std::vector<double> sorted = sample.data;
    std::sort(sorted.begin(), sorted.end());
    double farthest = 0, mean = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
      ASSERT_TRUE(sorted[i] >= 0 && sorted[i] < 1);
      farthest = std::max(farthest, std::fabs(sorted[i] - double(i) / 4000));
      mean += sorted[i] / 4000;
    }
    EXPECT_NEAR(mean, 0.5, 0.02);
    EXPECT_LT(farthest * std::sqrt(4000.0), 2.7);
  }
  // Seed, step and stream each give other numbers; the same give the same.
  EXPECT_EQ(draw(7, 1)[0].data, first[0].data);
  for (const auto &other : {draw(8, 1)[0], draw(7, 2)[0], first[1]}) {
    int equal = 0;
    for (size_t i = 0; i < other.data.size(); ++i)
      equal += other.data[i] == first[0].data[i];
    EXPECT_LT(equal, 4);
  }
}
