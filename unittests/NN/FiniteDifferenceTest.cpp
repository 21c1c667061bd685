//===- FiniteDifferenceTest.cpp - random ops against differences ----------===//
//
// Ops with random shapes and attributes, more than a file of cases can hold:
// the derivative along a random direction v, dy . (f(x + h v) - f(x - h v)) /
// 2h, is the vector-Jacobian product times v. In doubles, with errors of order
// h^2.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/Verifier.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>
#include <numeric>
#include <random>

using namespace mlir;
using namespace kerf;
using interpret::Tensor;

namespace {

using Shape = SmallVector<int64_t>;

/// One random op in a function of its operands.
struct Maker {
  MLIRContext *context;
  std::mt19937 random;
  OwningOpRef<ModuleOp> module;
  OpBuilder builder;
  Block *block = nullptr;
  func::FuncOp main;
  SmallVector<double> lowest; // of each argument
  double limit = 0;           // of integers

  Maker(MLIRContext *context, unsigned seed)
      : context(context), random(seed), builder(context) {
    Location loc = builder.getUnknownLoc();
    module = ModuleOp::create(builder, loc);
    builder.setInsertionPointToEnd(module->getBody());
    main = func::FuncOp::create(builder, loc, "main",
                                builder.getFunctionType({}, {}));
    block = main.addEntryBlock();
    builder.setInsertionPointToEnd(block);
  }

  int64_t draw(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % (to - from + 1));
  }
  bool chance() { return draw(0, 1) == 0; }
  double real(double from, double to) {
    return from + (to - from) * (double(random() % 100000) / 100000);
  }
  Shape shape(int64_t low, int64_t high, int64_t most = 5) {
    Shape result;
    for (int64_t rank = draw(low, high); rank > 0; --rank)
      result.push_back(draw(1, most));
    return result;
  }
  /// An argument with elements of [from, 2].
  Value argument(ArrayRef<int64_t> shape, double from = -2) {
    lowest.push_back(from);
    return block->addArgument(
        RankedTensorType::get(shape, builder.getF64Type()),
        builder.getUnknownLoc());
  }
  Value indices(ArrayRef<int64_t> shape, int64_t size) {
    lowest.push_back(0);
    limit = double(size);
    return block->addArgument(
        RankedTensorType::get(shape, builder.getI64Type()),
        builder.getUnknownLoc());
  }
  UnitAttr flag(bool set) { return set ? builder.getUnitAttr() : UnitAttr(); }
  DenseI64ArrayAttr list(ArrayRef<int64_t> values) {
    return builder.getDenseI64ArrayAttr(values);
  }
  template <typename Op, typename... Args> Operation *make(Args &&...args) {
    return Op::create(builder, builder.getUnknownLoc(),
                      std::forward<Args>(args)...);
  }

  Operation *binary() {
    Shape lhs = shape(0, 3), rhs = lhs;
    auto thin = [&](Shape &shape) {
      for (int64_t &dim : shape)
        if (draw(0, 3) == 0)
          dim = 1;
      if (!shape.empty() && draw(0, 2) == 0)
        shape.erase(shape.begin());
    };
    thin(lhs);
    thin(rhs);
    switch (draw(0, 8)) {
    case 0:
      return make<nn::SubOp>(argument(lhs), argument(rhs));
    case 5:
      return make<nn::AddOp>(argument(lhs), argument(rhs));
    case 6:
      return make<nn::MinOp>(argument(lhs), argument(rhs));
    case 7:
      return make<nn::ModOp>(argument(lhs), argument(rhs, 0.5));
    case 8:
      return make<nn::RemOp>(argument(lhs), argument(rhs, 0.5));
    case 1:
      return make<nn::MulOp>(argument(lhs), argument(rhs));
    case 2:
      return make<nn::DivOp>(argument(lhs), argument(rhs, 0.5));
    case 3:
      return make<nn::PowOp>(argument(lhs, 0.5), argument(rhs));
    default:
      return make<nn::MaxOp>(argument(lhs), argument(rhs));
    }
  }
  Operation *select() {
    Shape full = shape(0, 3), condition = full, lhs = full, rhs = full;
    for (Shape *each : {&condition, &lhs, &rhs})
      for (int64_t &dim : *each)
        if (draw(0, 3) == 0)
          dim = 1;
    lowest.push_back(0);
    Value c = block->addArgument(
        RankedTensorType::get(condition, builder.getI1Type()),
        builder.getUnknownLoc());
    Value a = argument(lhs), b = argument(rhs);
    return make<nn::SelectOp>(c, a, b);
  }
  Operation *unary() {
    Shape x = shape(0, 3);
    switch (draw(0, 18)) {
    case 0:
      return make<nn::NegOp>(argument(x));
    case 1:
      return make<nn::AbsOp>(argument(x));
    case 2:
      return make<nn::SignOp>(argument(x));
    case 3:
      return make<nn::ExpOp>(argument(x));
    case 4:
      return make<nn::LogOp>(argument(x, 0.5));
    case 5:
      return make<nn::SqrtOp>(argument(x, 0.5));
    case 6:
      return make<nn::RsqrtOp>(argument(x, 0.5));
    case 7:
      return make<nn::ReciprocalOp>(argument(x, 0.5));
    case 8:
      return make<nn::ErfOp>(argument(x));
    case 9:
      return make<nn::TanhOp>(argument(x));
    case 10:
      return make<nn::SigmoidOp>(argument(x));
    case 11:
      return make<nn::SinOp>(argument(x));
    case 12:
      return make<nn::CosOp>(argument(x));
    case 13:
      return make<nn::FloorOp>(argument(x));
    case 14:
      return make<nn::CeilOp>(argument(x));
    case 15:
      return make<nn::RoundOp>(argument(x));
    case 16:
      return make<nn::ReluOp>(argument(x));
    default:
      return make<nn::GeluOp>(argument(x), flag(chance()));
    }
  }
  RankedTensorType ofShape(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF64Type());
  }
  Operation *reshape() {
    Shape x = shape(0, 4), y;
    for (int64_t dim : x)
      if (!y.empty() && chance())
        y.back() *= dim;
      else
        y.push_back(dim);
    if (chance())
      y.insert(y.begin() + draw(0, int64_t(y.size())), 1);
    if (chance())
      std::swap(x, y);
    return make<nn::ReshapeOp>(ofShape(y), argument(x));
  }
  Operation *rearrange() {
    Shape x = shape(0, 4), wide = x, low, high, perm(x.size());
    switch (draw(0, 4)) {
    case 0:
      return reshape();
    case 1:
      std::iota(perm.begin(), perm.end(), 0);
      std::shuffle(perm.begin(), perm.end(), random);
      return make<nn::TransposeOp>(argument(x), list(perm));
    case 2:
      for (int64_t &dim : x)
        dim = chance() ? dim : 1;
      while (!x.empty() && chance())
        x.erase(x.begin());
      return make<nn::BroadcastOp>(ofShape(wide), argument(x));
    case 3:
      for (size_t dim = 0; dim < x.size(); ++dim) {
        low.push_back(draw(0, 2));
        high.push_back(draw(0, 2));
      }
      return make<nn::PadOp>(argument(x), list(low), list(high),
                             builder.getF64FloatAttr(real(-1, 1)));
    default: // to the same type: narrower ones have no derivative
      return make<nn::CastOp>(ofShape(x), argument(x));
    }
  }
  Operation *matmul() {
    bool tl = chance(), tr = chance();
    int64_t m = draw(1, 4), n = draw(1, 4), k = draw(1, 4);
    Shape batch = shape(0, 2, 3), lhs = batch, rhs = batch;
    auto thin = [&](Shape &shape) {
      if (chance())
        return;
      for (int64_t &dim : shape)
        if (chance())
          dim = 1;
      while (!shape.empty() && chance())
        shape.erase(shape.begin());
    };
    thin(lhs);
    thin(rhs);
    lhs.append({tl ? k : m, tl ? m : k});
    rhs.append({tr ? n : k, tr ? k : n});
    return make<nn::MatmulOp>(argument(lhs), argument(rhs), flag(tl), flag(tr));
  }

  struct Window {
    Shape kernel, strides, low, high, dilations, image;
  };
  Window window(bool lowPadding = true) {
    Window w;
    for (int64_t rank = draw(1, 3), left = rank; left > 0; --left) {
      w.kernel.push_back(draw(1, 3));
      w.strides.push_back(draw(1, 3));
      w.dilations.push_back(draw(1, 2));
      int64_t most = lowPadding ? 2 : w.kernel.back() - 1;
      w.low.push_back(draw(0, std::min<int64_t>(most, w.kernel.back() - 1)));
      w.high.push_back(draw(0, std::min<int64_t>(most, w.kernel.back() - 1)));
      w.image.push_back((w.kernel.back() - 1) * w.dilations.back() + 1 +
                        draw(0, rank == 3 ? 1 : 4));
    }
    return w;
  }
  Operation *conv() {
    Window w = window();
    int64_t groups = draw(1, 2), inner = draw(1, 2);
    Shape x{draw(1, 2)}, weights{groups * draw(1, 2), inner};
    x.append(w.image);
    x.push_back(groups * inner);
    weights.append(w.kernel);
    return make<nn::ConvOp>(argument(x), argument(weights), list(w.strides),
                            list(w.low), list(w.high), list(w.dilations),
                            builder.getI64IntegerAttr(groups));
  }
  Operation *pool() {
    Window w = window();
    Shape x{draw(1, 2)};
    x.append(w.image);
    x.push_back(draw(1, 2));
    if (chance())
      return make<nn::MaxPoolOp>(argument(x), list(w.kernel), list(w.strides),
                                 list(w.low), list(w.high), list(w.dilations));
    return make<nn::AvgPoolOp>(argument(x), list(w.kernel), list(w.strides),
                               list(w.low), list(w.high), list(w.dilations),
                               flag(chance()), DenseI64ArrayAttr());
  }
  Operation *slice() {
    Shape x = shape(1, 3, 8), starts, sizes, strides;
    for (int64_t dim : x) {
      int64_t stride = draw(1, 4), size = draw(1, (dim - 1) / stride + 1);
      int64_t span = (size - 1) * stride, first = draw(0, dim - 1 - span);
      bool back = chance();
      starts.push_back(back ? first + span : first);
      sizes.push_back(size);
      strides.push_back(back ? -stride : stride);
    }
    return make<nn::SliceOp>(argument(x), starts, sizes, strides);
  }
  Operation *rows() {
    Shape x = shape(1, 3);
    int64_t dim = draw(0, int64_t(x.size()) - 1);
    ArrayRef<int64_t> inner = ArrayRef(x).drop_front(dim);
    llvm::APFloat epsilon(0.1);
    switch (draw(0, 5)) {
    case 0:
      return make<nn::SoftmaxOp>(argument(x), dim);
    case 1:
      return make<nn::LogSoftmaxOp>(argument(x), dim);
    case 2:
      return make<nn::LayerNormOp>(argument(x), argument(inner),
                                   argument(inner), dim, epsilon);
    case 3:
      return make<nn::RMSNormOp>(argument(x), argument(inner), dim, epsilon);
    case 4: {
      Shape c{x.back()};
      return make<nn::BatchNormOp>(argument(x), argument(c), argument(c),
                                   argument(c), argument(c, 0.1), epsilon,
                                   llvm::APFloat(0.9));
    }
    default:
      return make<nn::LRNOp>(argument(x), draw(1, 4),
                             llvm::APFloat(real(0.1, 1)),
                             llvm::APFloat(real(0.3, 2)), llvm::APFloat(1.5));
    }
  }
  Operation *reduce() {
    Shape x = shape(1, 4, 4), dims;
    for (size_t dim = 0; dim < x.size(); ++dim)
      if (chance())
        dims.push_back(int64_t(dim));
    return make<nn::ReduceOp>(argument(x),
                              static_cast<nn::ReduceKind>(draw(0, 3)), dims);
  }
  Operation *move() {
    Shape x = shape(1, 3);
    auto dim = static_cast<size_t>(draw(0, int64_t(x.size()) - 1));
    if (chance())
      return make<nn::GatherOp>(argument(x), indices(shape(0, 2), x[dim]),
                                builder.getI64IntegerAttr(int64_t(dim)),
                                UnitAttr());
    Shape other = x, last = x;
    other[dim] = draw(1, 4);
    last[dim] = draw(1, 4);
    Value a = argument(x), b = argument(other), c = argument(last);
    return make<nn::ConcatOp>(ValueRange{a, b, c}, dim);
  }
  Operation *attention() {
    int64_t b = draw(1, 2), keyHeads = draw(1, 2),
            heads = keyHeads * draw(1, 2);
    int64_t queries = draw(1, 3), keys = draw(1, 3), size = draw(1, 3);
    Value q = argument({b, heads, queries, size});
    Value k = argument({b, keyHeads, keys, size});
    Value v = argument({b, keyHeads, keys, draw(1, 3)});
    return make<nn::AttentionOp>(q, k, v, Value(),
                                 builder.getF64FloatAttr(real(0.1, 1)),
                                 flag(chance()));
  }
  Operation *any() {
    switch (draw(0, 13)) {
    case 8:
      return select();
    case 9:
    case 10:
      return unary();
    case 11:
      return rearrange();
    case 0:
    case 12:
      return binary();
    case 1:
      return matmul();
    case 2:
      return conv();
    case 3:
      return pool();
    case 4:
      return slice();
    case 5:
      return rows();
    case 6:
      return reduce();
    case 7:
      return attention();
    default:
      return move();
    }
  }
};

double dot(const Tensor &a, const Tensor &b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i)
    sum += a.data[i] * b.data[i];
  return sum;
}

void check(MLIRContext &context, unsigned seed,
           std::map<std::string, int> &seen) {
  Maker maker(&context, seed);
  Operation *op = maker.any();
  ++seen[op->getName().getStringRef().str()];
  std::vector<Tensor> inputs, directions;
  for (auto [argument, lowest] :
       llvm::zip_equal(maker.block->getArguments(), maker.lowest)) {
    auto type = cast<RankedTensorType>(argument.getType());
    Tensor input(type.getShape()), direction(type.getShape());
    bool isFloat = isa<FloatType>(type.getElementType());
    for (double &value : input.data)
      value = isFloat ? maker.real(lowest, 2)
              : type.getElementType().isInteger(1)
                  ? double(maker.draw(0, 1))
                  : std::floor(maker.real(-maker.limit, maker.limit));
    if (isFloat)
      for (double &value : direction.data)
        value = maker.real(-1, 1);
    inputs.push_back(input);
    directions.push_back(direction);
  }
  Tensor dy(cast<RankedTensorType>(op->getResult(0).getType()).getShape());
  for (double &value : dy.data)
    value = maker.real(-1, 1);

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
  Value upstream = maker.block->addArgument(op->getResult(0).getType(),
                                            maker.builder.getUnknownLoc());
  // Results behind the first are statistics.
  SmallVector<Value> received(op->getNumResults());
  received[0] = upstream;
  auto gradients = cast<DifferentiableInterface>(op).buildVectorJacobianProduct(
      maker.builder, received);
  ASSERT_TRUE(succeeded(gradients));
  SmallVector<Value> results;
  std::vector<Tensor> into;
  for (auto [gradient, direction] : llvm::zip_equal(*gradients, directions))
    if (gradient) {
      results.push_back(gradient);
      into.push_back(direction);
    }
  func::ReturnOp::create(maker.builder, maker.builder.getUnknownLoc(), results);
  SmallVector<Type> types;
  for (Value value : results)
    types.push_back(value.getType());
  maker.main.setType(
      FunctionType::get(&context, maker.block->getArgumentTypes(), types));
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
  EXPECT_EQ(seen.size(), 48u);
  for (auto [name, count] : seen)
    EXPECT_GE(count, 3) << name;
}

} // namespace
