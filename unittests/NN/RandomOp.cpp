//===- RandomOp.cpp - a random op that has a gradient ---------------------===//
#include "RandomOp.h"

#include "kerf/NN/IR/Elements.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

template <typename... Ops>
static std::set<std::string> namesOnIntegersAlone(nn::detail::OpList<Ops...>) {
  std::set<std::string> names;
  auto add = [&](bool isAlone, StringRef name) {
    if (isAlone)
      names.insert(name.str());
  };
  (add(nn::isOnIntegers<Ops>() && !nn::isOnFloats<Ops>(),
       Ops::getOperationName()),
   ...);
  return names;
}

std::set<std::string> kerf::test::opsOnIntegersAlone() {
  return namesOnIntegersAlone(nn::detail::AllOps());
}

std::set<std::string> kerf::test::opsWithGradients(MLIRContext &context) {
  const std::set<std::string> integers = opsOnIntegersAlone();
  const std::set<std::string> none = {
      "nn.equal",   "nn.less",           "nn.less_equal", "nn.arg_reduce",
      "nn.top_k",   "nn.philox",         "nn.dropout",    "nn.is_nan",
      "nn.bitcast", "nn.greedy_suppress"};
  std::set<std::string> names;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (std::string text = name.getStringRef().str();
        name.hasInterface<DifferentiableInterface>() && !none.count(text) &&
        !integers.count(text))
      names.insert(text);
  return names;
}

RandomOp::RandomOp(MLIRContext *context, unsigned seed)
    : builder(context), random(seed) {
  Location loc = builder.getUnknownLoc();
  module = ModuleOp::create(builder, loc);
  builder.setInsertionPointToEnd(module->getBody());
  main = func::FuncOp::create(builder, loc, "main",
                              builder.getFunctionType({}, {}));
  block = main.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  op = any(seed);
}

std::vector<Tensor> RandomOp::inputs() {
  std::vector<Tensor> inputs;
  for (auto [argument, from] : llvm::zip(block->getArguments(), ranges)) {
    auto type = cast<RankedTensorType>(argument.getType());
    Tensor input(type.getShape());
    for (double &value : input.data)
      value = isa<FloatType>(type.getElementType())
                  ? real(from.first, from.second)
              : type.getElementType().isInteger(1)
                  ? double(draw(0, 1))
                  : std::floor(real(-limit, limit));
    inputs.push_back(input);
  }
  return inputs;
}

std::vector<unsigned> RandomOp::differentiate(bool all) {
  Value upstream =
      block->addArgument(op->getResult(0).getType(), builder.getUnknownLoc());
  ranges.push_back({-1, 2});
  SmallVector<Value> received(op->getNumResults());
  received[0] = upstream;
  auto gradients = cast<DifferentiableInterface>(op).buildVectorJacobianProduct(
      builder, received);
  std::vector<unsigned> present;
  SmallVector<Value> results;
  if (all)
    results.append(op->getResults().begin(), op->getResults().end());
  if (succeeded(gradients))
    for (auto [number, gradient] : llvm::enumerate(*gradients))
      if (gradient) {
        results.push_back(gradient);
        present.push_back(number);
      }
  func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  main.setType(builder.getFunctionType(block->getArgumentTypes(),
                                       ValueRange(results).getTypes()));
  return present;
}

RandomOp::Shape RandomOp::shape(int64_t low, int64_t high, int64_t max) {
  Shape result;
  for (int64_t rank = draw(low, high); rank > 0; --rank)
    result.push_back(draw(1, max));
  return result;
}

Value RandomOp::argument(ArrayRef<int64_t> shape, double from, double to) {
  ranges.push_back({from, to});
  return block->addArgument(RankedTensorType::get(shape, builder.getF64Type()),
                            builder.getUnknownLoc());
}

Value RandomOp::indices(ArrayRef<int64_t> shape, int64_t size) {
  ranges.push_back({0, 2});
  limit = double(size);
  return block->addArgument(RankedTensorType::get(shape, builder.getI64Type()),
                            builder.getUnknownLoc());
}

Operation *RandomOp::binary() {
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

Operation *RandomOp::select() {
  Shape full = shape(0, 3), condition = full, lhs = full, rhs = full;
  for (Shape *each : {&condition, &lhs, &rhs})
    for (int64_t &dim : *each)
      if (draw(0, 3) == 0)
        dim = 1;
  ranges.push_back({0, 2});
  Value c =
      block->addArgument(RankedTensorType::get(condition, builder.getI1Type()),
                         builder.getUnknownLoc());
  Value a = argument(lhs), b = argument(rhs);
  return make<nn::SelectOp>(c, a, b);
}

Operation *RandomOp::unary(unsigned turn) {
  Shape x = shape(0, 3);
  switch (turn % 30) {
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
  case 17:
    return make<nn::TanOp>(argument(x, -1, 1));
  case 18:
    return make<nn::SinhOp>(argument(x));
  case 19:
    return make<nn::CoshOp>(argument(x));
  case 20:
    return make<nn::AsinhOp>(argument(x));
  case 21:
    return make<nn::AcoshOp>(argument(x, 1.2, 4));
  case 22:
    return make<nn::AtanhOp>(argument(x, -0.8, 0.8));
  case 23:
    return make<nn::Log1pOp>(argument(x, -0.5, 2));
  case 24:
    return make<nn::AtanOp>(argument(x, -4, 4));
  case 25:
    return make<nn::AsinOp>(argument(x, -0.8, 0.8));
  case 26:
    return make<nn::AcosOp>(argument(x, -0.8, 0.8));
  case 27:
    return make<nn::SiluOp>(argument(x));
  case 28: {
    Value dy = argument(x);
    return make<nn::GeluGradientOp>(dy, argument(x), flag(chance()));
  }
  default:
    return make<nn::GeluOp>(argument(x), flag(chance()));
  }
}

Operation *RandomOp::reshape() {
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

Operation *RandomOp::rearrange() {
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

Operation *RandomOp::matmul() {
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

RandomOp::Window RandomOp::window(bool lowPadding) {
  Window w;
  for (int64_t rank = draw(1, 3), left = rank; left > 0; --left) {
    w.kernel.push_back(draw(1, 3));
    w.strides.push_back(draw(1, 3));
    w.dilations.push_back(draw(1, 2));
    int64_t max = lowPadding ? 2 : w.kernel.back() - 1;
    w.low.push_back(draw(0, std::min<int64_t>(max, w.kernel.back() - 1)));
    w.high.push_back(draw(0, std::min<int64_t>(max, w.kernel.back() - 1)));
    w.image.push_back((w.kernel.back() - 1) * w.dilations.back() + 1 +
                      draw(0, rank == 3 ? 1 : 4));
  }
  return w;
}

Operation *RandomOp::conv() {
  Window w = window();
  int64_t groups = draw(1, 2), inner = draw(1, 2);
  Shape x{draw(1, 2)}, weights{groups * draw(1, 2), inner};
  x.append(w.image);
  x.push_back(groups * inner);
  weights.append(w.kernel);
  if (draw(0, 3) == 0) {
    Shape y{x.front()};
    for (size_t d = 0; d < w.kernel.size(); ++d)
      y.push_back(nn::windowCount(w.image[d], w.kernel[d], w.strides[d],
                                  w.low[d], w.high[d], w.dilations[d]));
    y.push_back(weights.front());
    auto type = RankedTensorType::get(x, builder.getF64Type());
    return make<nn::ConvInputGradientOp>(
        type, argument(y), argument(weights), list(w.strides), list(w.low),
        list(w.high), list(w.dilations), builder.getI64IntegerAttr(groups));
  }
  return make<nn::ConvOp>(argument(x), argument(weights), list(w.strides),
                          list(w.low), list(w.high), list(w.dilations),
                          builder.getI64IntegerAttr(groups));
}

Operation *RandomOp::pool() {
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

Operation *RandomOp::slice() {
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

Operation *RandomOp::rows() {
  Shape x = shape(1, 3);
  int64_t dim = draw(0, int64_t(x.size()) - 1);
  ArrayRef<int64_t> inner = ArrayRef(x).drop_front(dim);
  llvm::APFloat epsilon(0.1);
  switch (draw(0, 6)) {
  case 0:
    return make<nn::SoftmaxOp>(argument(x), dim);
  case 1:
    return make<nn::LogSoftmaxOp>(argument(x), dim);
  case 2:
    return make<nn::LayerNormOp>(argument(x), argument(inner), argument(inner),
                                 dim, epsilon);
  case 3:
    return make<nn::RMSNormOp>(argument(x), argument(inner), dim, epsilon);
  case 4: {
    Shape c{x.back()};
    return make<nn::BatchNormOp>(argument(x), argument(c), argument(c),
                                 argument(c), argument(c, 0.1), epsilon,
                                 llvm::APFloat(0.9));
  }
  case 5:
    return make<nn::LpNormOp>(argument(x, 0.2), dim, chance());
  default:
    return make<nn::LRNOp>(argument(x), draw(1, 4), llvm::APFloat(real(0.1, 1)),
                           llvm::APFloat(real(0.3, 2)), llvm::APFloat(1.5));
  }
}

Operation *RandomOp::reduce() {
  Shape x = shape(1, 4, 4), dims;
  for (size_t dim = 0; dim < x.size(); ++dim)
    if (chance())
      dims.push_back(int64_t(dim));
  return make<nn::ReduceOp>(argument(x),
                            static_cast<nn::ReduceKind>(draw(0, 3)), dims);
}

Operation *RandomOp::move() {
  Shape x = shape(1, 3);
  auto dim = static_cast<size_t>(draw(0, int64_t(x.size()) - 1));
  if (chance())
    return make<nn::GatherOp>(argument(x), indices(shape(0, 2), x[dim]),
                              builder.getI64IntegerAttr(int64_t(dim)),
                              UnitAttr());
  if (chance()) {
    Shape rows(x.begin(), x.begin() + dim);
    rows.push_back(draw(1, 4));
    if (chance())
      return make<nn::GatherOp>(argument(x), indices(rows, x[dim]),
                                builder.getI64IntegerAttr(int64_t(dim)),
                                UnitAttr(), builder.getUnitAttr());
    Shape updates = x;
    updates[dim] = rows.back();
    // All but products, which have no gradient.
    const nn::ScatterKind kinds[] = {nn::ScatterKind::Set, nn::ScatterKind::Add,
                                     nn::ScatterKind::Min,
                                     nn::ScatterKind::Max};
    Value data = argument(x), places = indices(rows, x[dim]);
    return make<nn::ScatterOp>(data, places, argument(updates),
                               kinds[draw(0, 3)], int64_t(dim));
  }
  Shape other = x, last = x;
  other[dim] = draw(1, 4);
  last[dim] = draw(1, 4);
  Value a = argument(x), b = argument(other), c = argument(last);
  return make<nn::ConcatOp>(ValueRange{a, b, c}, dim);
}

Operation *RandomOp::attention() {
  int64_t b = draw(1, 2), keyHeads = draw(1, 2), heads = keyHeads * draw(1, 2);
  int64_t queries = draw(1, 3), keys = draw(1, 3), size = draw(1, 3);
  Value q = argument({b, heads, queries, size});
  Value k = argument({b, keyHeads, keys, size});
  Value v = argument({b, keyHeads, keys, draw(1, 3)});
  return make<nn::AttentionOp>(
      q, k, v, Value(), builder.getF64FloatAttr(real(0.1, 1)), flag(chance()));
}

Operation *RandomOp::any(unsigned seed) {
  switch (seed % 14) {
  case 8:
    return select();
  case 9:
  case 10:
    return unary(seed / 14);
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
