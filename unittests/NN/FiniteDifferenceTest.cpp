//===- FiniteDifferenceTest.cpp - random ops against differences ----------===//
//
// Ops with random shapes and attributes, more than a file of cases can hold:
// the derivative along a random direction v, dy . (f(x + h v) - f(x - h v)) /
// 2h, is the vector-Jacobian product times v. In doubles, with errors of order
// h^2.
//
//===----------------------------------------------------------------------===//
#include "RandomOp.h"

#include "mlir/IR/Verifier.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

double dot(const Tensor &a, const Tensor &b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i)
    sum += a.data[i] * b.data[i];
  return sum;
}

void check(MLIRContext &context, unsigned seed,
           std::map<std::string, int> &seen) {
  RandomOp maker(&context, seed);
  Operation *op = maker.op;
  ++seen[op->getName().getStringRef().str()];
  std::vector<Tensor> inputs = maker.inputs(), directions;
  auto random = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor result(tensor.getShape());
    if (isa<FloatType>(tensor.getElementType()))
      for (double &value : result.data)
        value = maker.real(-1, 1);
    return result;
  };
  for (Type type : maker.main.getBody().getArgumentTypes())
    directions.push_back(random(type));
  Tensor dy = random(op->getResult(0).getType());

  // Forward alone, at x + h v and x - h v.
  auto pointers = [](const std::vector<Tensor> &tensors) {
    SmallVector<const Tensor *> result;
    for (const Tensor &tensor : tensors)
      result.push_back(&tensor);
    return result;
  };
  const double step = 1e-5;
  double along = 0;
  for (double sign : {1.0, -1.0}) {
    std::vector<Tensor> moved = inputs;
    for (auto [input, direction] : llvm::zip_equal(moved, directions))
      for (auto [value, delta] : llvm::zip_equal(input.data, direction.data))
        value += sign * step * delta;
    auto result = interpret::evaluate(op, pointers(moved));
    ASSERT_TRUE(succeeded(result));
    along += sign * dot(dy, result->front()) / (2 * step);
  }

  // Backward.
  std::vector<Tensor> into;
  for (unsigned operand : maker.differentiate(/*all=*/false))
    into.push_back(directions[operand]);
  ASSERT_TRUE(succeeded(verify(*maker.module)));
  inputs.push_back(dy);
  auto outputs = interpret::run(maker.main, inputs, nullptr);
  ASSERT_TRUE(succeeded(outputs));
  double product = 0;
  for (auto [gradient, direction] : llvm::zip_equal(*outputs, into)) {
    ASSERT_EQ(gradient.shape, direction.shape);
    product += dot(gradient, direction);
  }
  EXPECT_NEAR(product, along, 2e-7 * (1 + std::fabs(along)))
      << op->getName().getStringRef().str();
}

TEST(FiniteDifferenceTest, RandomOps) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, nn::NNDialect>();
  std::map<std::string, int> seen;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check(context, seed, seen);
    if (::testing::Test::HasFatalFailure())
      return;
  }
  for (const std::string &name : opsWithGradients(context))
    EXPECT_GE(seen[name], 3) << name;
}

} // namespace
