//===- EvaluateTest.cpp - constants that repeat, beside the interpreter ---===//
//
// The evaluator computes what repeats once. Every op that it knows is held
// against the interpreter, which shares no code with it, on operands that
// repeat along some dimensions, written as nn.broadcast or as whole constants.
//
//===----------------------------------------------------------------------===//
#include "RandomOp.h"

#include "kerf/NN/IR/Evaluate.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using interpret::Tensor;

namespace {

/// `tensor` with what lies at the front of `dim` everywhere along it.
void repeatFront(Tensor &tensor, size_t dim) {
  int64_t inner = 1, size = tensor.shape[dim];
  for (size_t d = dim + 1; d < tensor.shape.size(); ++d)
    inner *= tensor.shape[d];
  for (size_t at = 0; at < tensor.data.size(); ++at) {
    int64_t flat = int64_t(at), place = flat / inner % size;
    tensor.data[at] = tensor.data[size_t(flat - place * inner)];
  }
}

DenseElementsAttr toElements(RankedTensorType type, ArrayRef<double> data) {
  SmallVector<Attribute> elements;
  for (double value : data)
    if (auto integer = dyn_cast<IntegerType>(type.getElementType()))
      elements.push_back(IntegerAttr::get(
          integer, APInt(integer.getWidth(), uint64_t(int64_t(value)),
                         /*isSigned=*/true, /*implicitTrunc=*/true)));
    else
      elements.push_back(FloatAttr::get(type.getElementType(), value));
  return DenseElementsAttr::get(type, elements);
}

} // namespace

TEST(EvaluateTest, WhatRepeatsIsComputedOnce) {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, nn::NNDialect>();
  size_t numKnown = 0, numRepeating = 0;
  std::set<std::string> names;
  for (unsigned seed = 0; seed < 8000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomOp random(&context, seed);
    if (random.op->getNumResults() != 1)
      continue;
    std::vector<Tensor> inputs = random.inputs();
    Block &body = random.main.getBody().front();
    OpBuilder builder(&body, body.begin());
    for (auto [argument, tensor] : llvm::zip(body.getArguments(), inputs)) {
      auto type = cast<RankedTensorType>(argument.getType());
      SmallVector<int64_t> core(tensor.shape.begin(), tensor.shape.end());
      bool whole = random.real(0, 4) < 1;
      for (size_t dim = 0; dim < core.size(); ++dim)
        if (random.real(0, 2) < 1 && core[dim] > 0) {
          repeatFront(tensor, dim);
          core[dim] = whole ? core[dim] : 1;
        }
      // The elements of the core, in order.
      std::vector<double> data;
      for (size_t at = 0; at < tensor.data.size(); ++at) {
        bool isFront = true;
        int64_t rest = int64_t(at);
        for (size_t dim = core.size(); dim-- > 0;) {
          isFront &= core[dim] != 1 || rest % tensor.shape[dim] == 0;
          rest /= tensor.shape[dim];
        }
        if (isFront)
          data.push_back(tensor.data[at]);
      }
      argument.replaceAllUsesWith(
          nn::makeConstant(builder, random.main.getLoc(), type,
                           toElements(type.clone(core), data)));
    }
    DenseElementsAttr elements = nn::evaluate(random.op, /*small=*/0);
    if (!elements)
      continue;
    SmallVector<const Tensor *> operands;
    for (const Tensor &tensor : inputs)
      operands.push_back(&tensor);
    auto expected = interpret::evaluate(random.op, operands);
    ASSERT_TRUE(succeeded(expected));
    auto type = cast<RankedTensorType>(random.op->getResult(0).getType());
    ++numKnown;
    numRepeating += elements.getType() != type;
    names.insert(random.op->getName().getStringRef().str());
    DenseElementsAttr all = nn::wholeElements(
        nn::makeConstant(builder, random.main.getLoc(), type, elements));
    ASSERT_TRUE(all);
    ASSERT_EQ(all.getType(), type);
    size_t at = 0;
    for (Attribute element : all.getValues<Attribute>()) {
      double got =
          isa<FloatAttr>(element) ? cast<FloatAttr>(element).getValueAsDouble()
          : type.getElementType().isInteger(1)
              ? double(cast<IntegerAttr>(element).getValue().getBoolValue())
              : double(cast<IntegerAttr>(element).getInt());
      double want = (*expected)[0].data[at++];
      ASSERT_TRUE((std::isnan(got) && std::isnan(want)) || got == want ||
                  std::fabs(got - want) <= 1e-9 * (1 + std::fabs(want)))
          << random.op->getName().getStringRef().str() << ": element " << at - 1
          << " is " << got << ", expected " << want;
    }
  }
  EXPECT_GT(numKnown, 1000u);
  EXPECT_GT(numRepeating, 400u);
  for (const char *name :
       {"nn.add", "nn.select", "nn.cast", "nn.reshape", "nn.transpose",
        "nn.slice", "nn.reduce", "nn.concat", "nn.gather", "nn.pad"})
    EXPECT_TRUE(names.count(name)) << name;
}
