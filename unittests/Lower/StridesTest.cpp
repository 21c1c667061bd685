//===- StridesTest.cpp - chains of shape ops as strides -------------------===//
//
// A view is judged by its meaning: element by element, the chain applied to the
// numbers 0, 1, 2, ... must be what offset and strides address.
//
//===----------------------------------------------------------------------===//
#include "Library/Strides.h"

#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace kerf;

namespace {

class StridesTest : public ::testing::Test {
protected:
  StridesTest() {
    context.loadDialect<nn::NNDialect, func::FuncDialect>();
    module = ModuleOp::create(UnknownLoc::get(&context));
    builder.setInsertionPointToEnd(module->getBody());
  }

  RankedTensorType type(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }
  ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
  Value source(ArrayRef<int64_t> shape) {
    return nn::IotaOp::create(builder, loc, type(shape), 0);
  }
  Value reshape(Value x, ArrayRef<int64_t> shape) {
    return nn::ReshapeOp::create(builder, loc, type(shape), x);
  }
  Value transpose(Value x, ArrayRef<int64_t> perm) {
    return nn::TransposeOp::create(builder, loc, x, perm);
  }

  /// Where each element of `value`, in row-major order, lies in `base`.
  std::vector<int64_t> origins(Value value, Value base) {
    auto shape = shapeOf(value);
    std::vector<int64_t> result(
        cast<RankedTensorType>(value.getType()).getNumElements());
    if (value == base) {
      for (size_t i = 0; i < result.size(); ++i)
        result[i] = i;
      return result;
    }
    Operation *op = value.getDefiningOp();
    Value x = op->getOperand(0);
    std::vector<int64_t> before = origins(x, base);
    auto from = shapeOf(x);
    for (size_t linear = 0; linear < result.size(); ++linear) {
      Dims index(shape.size()), source(from.size());
      for (int64_t d = shape.size() - 1, rest = linear; d >= 0; --d) {
        index[d] = rest % shape[d];
        rest /= shape[d];
      }
      int64_t position = 0;
      if (auto t = dyn_cast<nn::TransposeOp>(op)) {
        for (auto [d, s] : llvm::enumerate(t.getPerm()))
          source[s] = index[d];
      } else if (auto s = dyn_cast<nn::SliceOp>(op)) {
        for (size_t d = 0; d < from.size(); ++d)
          source[d] = s.getStarts()[d] + index[d] * s.getStrides()[d];
      } else if (isa<nn::BroadcastOp>(op)) {
        for (size_t d = 0; d < from.size(); ++d) {
          int64_t i = index[d + shape.size() - from.size()];
          source[d] = from[d] == 1 ? 0 : i;
        }
      } else {
        result[linear] = before[linear];
        continue;
      }
      for (size_t d = 0; d < from.size(); ++d)
        position = position * from[d] + source[d];
      result[linear] = before[position];
    }
    return result;
  }

  void expectMeaning(Value value, const StridedView &view) {
    std::vector<int64_t> expected = origins(value, view.base);
    auto shape = shapeOf(value);
    ASSERT_EQ(ArrayRef<int64_t>(view.sizes), shape);
    for (size_t linear = 0; linear < expected.size(); ++linear) {
      int64_t address = view.offset;
      for (int64_t d = shape.size() - 1, rest = linear; d >= 0; --d) {
        address += rest % shape[d] * view.strides[d];
        rest /= shape[d];
      }
      ASSERT_EQ(address, expected[linear]) << "element " << linear;
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  OpBuilder builder{&context};
  Location loc = UnknownLoc::get(&context);
};

// Attention's heads: [B, S, H D] -> [B, H, S, D], nothing to copy.
TEST_F(StridesTest, HeadsAreAView) {
  Value x = source({2, 5, 12});
  Value heads = transpose(reshape(x, {2, 5, 3, 4}), {0, 2, 1, 3});
  StridedView view = composeView(heads);
  EXPECT_EQ(view.base, x);
  EXPECT_EQ(view.strides, Dims({60, 4, 12, 1}));
  expectMeaning(heads, view);
}

// Merging batch and heads around a transpose is no obstacle.
TEST_F(StridesTest, RegroupedHeadsAreAView) {
  Value x = source({2, 5, 12});
  Value heads = transpose(reshape(x, {2, 5, 3, 4}), {0, 2, 1, 3});
  Value flat = transpose(reshape(heads, {6, 5, 4}), {0, 2, 1});
  Value keys = reshape(flat, {2, 3, 4, 5});
  StridedView view = composeView(keys);
  EXPECT_EQ(view.base, x);
  expectMeaning(keys, view);
}

// Joining heads after a transpose needs a copy: the base is the transpose.
TEST_F(StridesTest, JoinedHeadsAreNot) {
  Value x = source({2, 3, 5, 4});
  Value moved = transpose(x, {0, 2, 1, 3});
  Value joined = reshape(moved, {2, 5, 12});
  StridedView view = composeView(joined);
  EXPECT_EQ(view.base, moved);
  expectMeaning(joined, view);
  // But a producer can write so that the joined tensor is dense.
  Operation *chain[] = {moved.getDefiningOp(), joined.getDefiningOp()};
  auto strides = pullBack(chain, denseStrides({2, 5, 12}));
  ASSERT_TRUE(strides);
  EXPECT_EQ(*strides, Dims({60, 4, 12, 1}));
}

// Random chains of all four ops, read through their views.
TEST_F(StridesTest, RandomChains) {
  std::mt19937 random(11);
  int whole = 0;
  const int rounds = 400;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    Value base = source({2, 3, 4, 6}), x = base;
    int steps = 1 + random() % 5;
    for (int step = 0; step < steps; ++step) {
      Dims shape(shapeOf(x));
      switch (random() % 4) {
      case 0: {
        Dims perm(shape.size());
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), random);
        x = transpose(x, perm);
        break;
      }
      case 1: {
        size_t d = random() % shape.size();
        if (shape.size() > 1 && d + 1 < shape.size() && random() % 2) {
          shape[d] *= shape[d + 1];
          shape.erase(shape.begin() + d + 1);
        } else if (shape.size() < 6) {
          int64_t part = shape[d] % 2 == 0 ? 2 : 1;
          shape[d] /= part;
          shape.insert(shape.begin() + d, part);
        }
        x = reshape(x, shape);
        break;
      }
      case 2: {
        Dims starts(shape.size(), 0), sizes(shape), strides(shape.size(), 1);
        size_t d = random() % shape.size();
        starts[d] = random() % shape[d];
        sizes[d] = 1 + random() % (shape[d] - starts[d]);
        x = nn::SliceOp::create(builder, loc, x, starts, sizes, strides);
        break;
      }
      default:
        if (shape.size() < 6) {
          shape.insert(shape.begin(), 1 + random() % 2);
          x = nn::BroadcastOp::create(builder, loc, type(shape), x);
        }
      }
    }
    StridedView view = composeView(x);
    expectMeaning(x, view);
    if (::testing::Test::HasFatalFailure())
      return;
    whole += view.base == base;
  }
  EXPECT_GT(whole, rounds / 2);
}

} // namespace
