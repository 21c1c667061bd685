//===- RandomBlock.h - a random block with random answers -------*- C++ -*-===//
//
// As lowering sees blocks (ops that follow their reader, no calls among what is
// grouped), or as planning does (calls, and views that are looked through).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_FUSION_RANDOMBLOCK_H
#define KERF_UNITTESTS_FUSION_RANDOMBLOCK_H

#include "Graph.h"

#include <random>
#include <set>
#include <vector>

namespace kerf::test {

struct RandomBlock {
  /// `fusesAll`: any union can be computed.
  RandomBlock(unsigned seed, bool fusesAll);

  Graph graph;
  Answers answers;
  mlir::Operation *end = nullptr; ///< reads what nobody else does
};

/// For each group of `groups` those that it reads, views looked through.
std::vector<std::set<int64_t>> readGroups(const FusionGroups &groups,
                                          const FusionQuestions &questions);

/// For each number those from which a path leads to it along `before`.
std::vector<std::set<int64_t>>
closure(const std::vector<std::set<int64_t>> &before);

} // namespace kerf::test

#endif // KERF_UNITTESTS_FUSION_RANDOMBLOCK_H
