//===- VerifyCompareTest.cpp - what chance explains of a comparison -------===//
//
// A program is one run more beside those of the reference with other roundings.
// If all are drawn from one distribution, none may be called wrong; if the
// program has an error besides, it must be.
//
//===----------------------------------------------------------------------===//
#include "VerifyCompare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace kerf::tool;

namespace {

constexpr int64_t kElements = 20000;

/// The comparison of a program with a reference of zeros, of which other
/// roundings have made `runs`.
Difference judge(const std::vector<double> &program,
                 const std::vector<std::vector<double>> &runs) {
  Tolerance tolerance;
  tolerance.atol = 1e-5;
  std::vector<Piece> pieces = {
      wholePiece({kElements}, std::vector<double>(kElements, 0))};
  for (const std::vector<double> &run : runs)
    widenSlack(pieces, {wholePiece({kElements}, run)}, /*factor=*/1, tolerance);
  kerf_tensor_info_t info = {};
  info.name = "x";
  info.dtype = KERF_F64;
  info.rank = 1;
  const int64_t shape[] = {kElements};
  info.shape = shape;
  Difference result = compare(info, program.data(), pieces, tolerance, {});
  explainByChance(result, pieces);
  return result;
}

/// A step behind which rounding decides most of each number, as behind a few
/// steps of an optimizer that diverges: some elements move much farther in one
/// run than in others.
std::vector<double> chaotic(std::mt19937_64 &random) {
  std::lognormal_distribution<double> sizes(0, 2);
  std::normal_distribution<double> signs;
  std::vector<double> numbers(kElements);
  for (double &number : numbers)
    number = sizes(random) * signs(random);
  return numbers;
}

/// 24 runs of the reference, each drawn by `draw`.
template <typename Draw>
std::vector<std::vector<double>> runsOf(Draw draw, std::mt19937_64 &random) {
  std::vector<std::vector<double>> runs(24);
  for (std::vector<double> &run : runs)
    run = draw(random);
  return runs;
}

TEST(VerifyCompare, OneRunMoreIsNotWrong) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<double>> runs = runsOf(chaotic, random);
    Difference result = judge(chaotic(random), runs);
    EXPECT_EQ(result.wrong, 0) << "seed " << seed;
    EXPECT_GT(result.undecided, kElements / 2);
  }
}

// Behind a unit whose activations differ from run to run a whole row of weights
// moves at once: in one run of 24 far, in the others little.
TEST(VerifyCompare, RowsMoveAtOnce) {
  constexpr int64_t kRow = 50;
  auto inRows = [](std::mt19937_64 &random) {
    std::lognormal_distribution<double> sizes(0, 2);
    std::normal_distribution<double> elements;
    std::vector<double> numbers(kElements);
    for (int64_t row = 0; row < kElements; row += kRow) {
      double size = row < 2 * kRow ? sizes(random) : 1e-9;
      for (int64_t i = row; i < row + kRow; ++i)
        numbers[i] = size * elements(random);
    }
    return numbers;
  };
  int64_t wrong = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<double>> runs = runsOf(inRows, random);
    wrong += judge(inRows(random), runs).wrong > 0;
  }
  EXPECT_LE(wrong, 5);
}

// Several times as many elements as by chance are farther off than in any run,
// though some run has moved some element as far.
TEST(VerifyCompare, AnErrorIsWrong) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<double>> runs = runsOf(chaotic, random);
    std::vector<double> program = chaotic(random);
    for (int64_t i = 0; i < kElements; i += 10)
      program[i] = 2000;
    EXPECT_GT(judge(program, runs).wrong, 0) << "seed " << seed;
  }
}

// Where rounding moves nothing, one element is enough.
TEST(VerifyCompare, OneElementIsWrong) {
  std::mt19937_64 random(1);
  std::vector<std::vector<double>> runs = runsOf(chaotic, random);
  for (std::vector<double> &run : runs)
    for (double &number : run)
      number *= 1e-9;
  std::vector<double> program(kElements, 0);
  program[7] = 1e-3;
  EXPECT_EQ(judge(program, runs).wrong, 1);
}

} // namespace
