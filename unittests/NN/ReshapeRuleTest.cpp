//===- ReshapeRuleTest.cpp - parts of a reshape hold the same elements ----===//
#include "kerf/Interfaces/ShardingRule.h"

#include "gtest/gtest.h"

#include <numeric>
#include <random>
#include <set>

using namespace kerf;

namespace {
using Shape = std::vector<int64_t>;

/// The flat positions of the elements at which `factor`, as the major one of
/// `dim`, has the value `part`; empty if it is not the major one of any.
std::set<int64_t> elementsOf(const ShardingRule &rule,
                             const TensorFactors &tensor, const Shape &shape,
                             unsigned factor, int64_t part) {
  std::set<int64_t> elements;
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1),
                                  std::multiplies<>());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const DimFactors &factors = tensor[dim];
    for (size_t at = 0; at < factors.size(); ++at) {
      if (factors[at] != factor)
        continue;
      int64_t minor = 1;
      for (size_t i = at + 1; i < factors.size(); ++i)
        minor *= rule.factors[factors[i]].size;
      int64_t pitch = std::accumulate(shape.begin() + dim + 1, shape.end(),
                                      int64_t(1), std::multiplies<>());
      for (int64_t element = 0; element < count; ++element)
        if (element / pitch % shape[dim] / minor % rule.factors[factor].size ==
            part)
          elements.insert(element);
    }
  }
  return elements;
}

/// Factors of size above 1 that may be cut, by the operand's dimension.
std::vector<Shape> cutOf(const ShardingRule &rule) {
  std::vector<Shape> sizes;
  for (const DimFactors &factors : rule.operands[0]) {
    sizes.emplace_back();
    for (unsigned factor : factors)
      if (rule.factors[factor].kind == FactorKind::Parallel)
        sizes.back().push_back(rule.factors[factor].size);
  }
  return sizes;
}

TEST(ReshapeRule, PartsHoldTheSameElements) {
  std::mt19937 random(1);
  const int64_t primes[] = {2, 2, 3, 3, 5, 1};
  for (int round = 0; round < 3000; ++round) {
    // Random products of the same primes, in random groups.
    auto draw = [&](std::vector<int64_t> from) {
      Shape shape{1};
      for (int64_t prime : from) {
        if (random() % 2)
          shape.push_back(1);
        shape.back() *= prime;
      }
      return shape;
    };
    std::vector<int64_t> parts;
    for (int i = 0; i < 5; ++i)
      parts.push_back(primes[random() % 6]);
    Shape from = draw(parts);
    if (random() % 2)
      std::swap(parts[random() % 5], parts[random() % 5]);
    Shape to = draw(parts);
    ShardingRule rule = reshapeShardingRule(from, to);
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
      if (rule.factors[factor].kind != FactorKind::Parallel)
        continue;
      for (int64_t part = 0; part < rule.factors[factor].size; ++part) {
        auto in = elementsOf(rule, rule.operands[0], from, factor, part);
        ASSERT_FALSE(in.empty());
        ASSERT_EQ(in, elementsOf(rule, rule.results[0], to, factor, part));
      }
    }
    // The factors of a dimension make all of it, or there are none.
    for (auto [tensor, shape] : {std::pair(&rule.operands[0], &from),
                                 std::pair(&rule.results[0], &to)})
      for (size_t dim = 0; dim < shape->size(); ++dim) {
        int64_t size = 1;
        for (unsigned factor : (*tensor)[dim])
          size *= rule.factors[factor].size;
        ASSERT_TRUE((*tensor)[dim].empty() || size == (*shape)[dim]);
      }
  }
}

// Behind the batch, dimensions are grouped anew (a relative shift).
TEST(ReshapeRule, KeepsTheBatchInFrontOfAStraddle) {
  EXPECT_EQ(cutOf(reshapeShardingRule({8, 15, 8}, {8, 8, 15})),
            (std::vector<Shape>{{8}, {}, {}}));
  EXPECT_EQ(cutOf(reshapeShardingRule({64, 2, 3}, {64, 3, 2})),
            (std::vector<Shape>{{64}, {}, {}}));
  EXPECT_EQ(cutOf(reshapeShardingRule({64, 4, 3, 8}, {64, 4, 8, 3})),
            (std::vector<Shape>{{64}, {4}, {}, {}}));
  EXPECT_EQ(cutOf(reshapeShardingRule({6, 4, 15, 8, 7}, {24, 8, 15, 7})),
            (std::vector<Shape>{{6}, {4}, {}, {}, {7}}));
  // Two straddles, with a dimension between them.
  EXPECT_EQ(cutOf(reshapeShardingRule({2, 3, 5, 4, 7}, {3, 2, 5, 7, 4})),
            (std::vector<Shape>{{}, {}, {5}, {}, {}}));
}
} // namespace
