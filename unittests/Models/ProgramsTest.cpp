//===- ProgramsTest.cpp - programs that random ones do not have -----------===//
//
// Calls, loops, ops without a rule, rows, tiles: each program is planned at
// random on many meshes, and the ranks compute what the function does.
//
//===----------------------------------------------------------------------===//
#include "Programs.h"
#include "LoopEvaluator.h"
#include "OnRanks.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

TEST(Programs, RanksComputeWhatOneDoes) {
  UpstreamContext loaded;
  constexpr unsigned kPlans = 12;
  for (const Program &each : kPrograms) {
    SCOPED_TRACE(each.name);
    unsigned planned = 0;
    for (unsigned seed = 1; seed <= kPlans; ++seed) {
      Random random(seed);
      auto module = parseSourceString<ModuleOp>(each.text, &loaded.context);
      ASSERT_TRUE(module);
      auto function = module->lookupSymbol<func::FuncOp>("f");
      auto inputs = makeInputs(function, random);
      auto expected = runUpstream(function, inputs);
      ASSERT_TRUE(succeeded(expected));
      std::string plan;
      auto outputs = planAndRun(*module, inputs, random, seed, plan);
      if (!outputs)
        continue;
      ++planned;
      ASSERT_TRUE(succeeded(*outputs)) << plan << textOf(*module);
      for (size_t i = 0; i < expected->size(); ++i)
        ASSERT_LE(interpret::difference((**outputs)[i], (*expected)[i]), 1e-9)
            << "output " << i << "\n"
            << plan << textOf(*module);
    }
    EXPECT_GE(planned, kPlans / 2);
  }
}

} // namespace
