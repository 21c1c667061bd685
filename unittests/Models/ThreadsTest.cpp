//===- ThreadsTest.cpp - compilations side by side ------------------------===//
//
// Nothing of a compilation is outside of its context: random programs that two
// threads plan and partition at once become the same bytes as alone.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "OnRanks.h"

#include "mlir/Parser/Parser.h"

#include <thread>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

/// The plan and the partitioned module of a program; empty without a plan.
std::string compile(unsigned seed) {
  UpstreamContext loaded;
  Random random(seed);
  std::string program = makeProgram(random, 3);
  auto module = parseSourceString<ModuleOp>(program, &loaded.context);
  std::string planned;
  if (!module || !planAndPartition(*module, random, seed, planned))
    return "";
  return planned + textOf(*module);
}

TEST(Threads, TwoCompilationsDoNotMeet) {
  unsigned rounds = seedsOf(1000, 30), compiled = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    std::string left, right;
    std::thread other([&] { left = compile(2 * round); });
    right = compile(2 * round + 1);
    other.join();
    ASSERT_EQ(left, compile(2 * round)) << "seed " << 2 * round;
    ASSERT_EQ(right, compile(2 * round + 1)) << "seed " << 2 * round + 1;
    compiled += !left.empty() + !right.empty();
  }
  EXPECT_GE(compiled, rounds);
}

} // namespace
