//===- BorderTest.cpp - operations that jump where floats cross -----------===//
//
// Rounding::Choices moves what an operation reads by what nearly equal floats
// differ, where that may decide: its result, or its slope, jumps. Of a rest,
// the largest and the least then change places.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace kerf;
using interpret::Tensor;

namespace {
class BorderTest : public ::testing::Test {
protected:
  BorderTest() { context.loadDialect<func::FuncDialect, nn::NNDialect>(); }

  /// What `op` gives of 5.999999 (6) and 2 by 16 choices, in whole numbers.
  std::set<int> resultsOf(const std::string &op, const std::string &type) {
    std::string tensor = "tensor<1x" + type + ">";
    auto module = parseSourceString<ModuleOp>(
        "func.func @main(%a: " + tensor + ", %b: " + tensor + ") -> " + tensor +
            " { %r = " + op + " %a, %b : (" + tensor + ", " + tensor + ") -> " +
            tensor + "\n return %r : " + tensor + " }",
        &context);
    EXPECT_TRUE(module);
    std::set<int> results;
    for (uint64_t seed = 0; module && seed < 16; ++seed) {
      interpret::RunOptions options;
      options.rounding = interpret::Rounding::Choices;
      options.roundingUnits = 128;
      options.seed = seed;
      double lhs = type == "f32" ? 5.999999 : 6;
      auto found =
          interpret::run(*module->getOps<func::FuncOp>().begin(),
                         {Tensor({1}, lhs), Tensor({1}, 2)}, nullptr, options);
      EXPECT_TRUE(succeeded(found));
      if (succeeded(found))
        results.insert(int(std::nearbyint((*found)[0].data[0])));
    }
    return results;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

TEST_F(BorderTest, Rests) {
  for (const char *op : {"nn.mod", "nn.rem"}) {
    EXPECT_EQ(resultsOf(op, "f32"), (std::set<int>{0, 2})) << op;
    EXPECT_EQ(resultsOf(op, "i64"), std::set<int>{0}) << op;
  }
}

TEST_F(BorderTest, NoBorder) {
  for (const char *op : {"nn.add", "nn.mul"})
    EXPECT_EQ(resultsOf(op, "f32").size(), 1u) << op;
}
} // namespace
