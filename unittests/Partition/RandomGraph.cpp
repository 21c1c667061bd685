//===- RandomGraph.cpp - random functions ---------------------------------===//
//
// A pool of values grows op by op; each op takes what fits from the pool, or
// makes a weight of the shape that it needs. Values that could grow without
// bound (exp, prod) go through tanh first.
//
//===----------------------------------------------------------------------===//
#include "RandomGraph.h"

#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

using Shape = SmallVector<int64_t>;

struct Grower {
  OpBuilder builder;
  Random &random;
  std::vector<Value> pool; // floats
  int numWeights = 0, numOps = 0;
  Value ids; // an integer input

  Location loc() {
    return NameLoc::get(builder.getStringAttr("op" + Twine(numOps++)));
  }
  Value pick() { return pool[draw(random, pool.size())]; }
  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
  RankedTensorType floats(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }
  int64_t size() { return 1 + draw(random, 7); }

  Value weight(ArrayRef<int64_t> shape) {
    RankedTensorType type = floats(shape);
    std::string name = "w" + std::to_string(numWeights++);
    if (chance(random, 15)) {
      auto constant = nn::ConstantOp::create(
          builder, loc(),
          cast<ElementsAttr>(DenseElementsAttr::get(type, 0.5f)));
      return constant;
    }
    return nn::WeightOp::create(builder, loc(), Type(type),
                                llvm::StringRef(name), uint64_t(0), uint64_t(0),
                                uint64_t(type.getNumElements() * 4), Type(type),
                                DenseI64ArrayAttr());
  }
  /// A value of this shape: one that is there, or a weight.
  Value ofShape(ArrayRef<int64_t> shape) {
    std::vector<Value> fitting;
    for (Value value : pool)
      if (shapeOf(value) == shape)
        fitting.push_back(value);
    if (fitting.empty() || chance(random, 30))
      return weight(shape);
    return fitting[draw(random, fitting.size())];
  }
  int64_t dimOf(Value x) { return draw(random, shapeOf(x).size()); }

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, loc(), std::forward<Args>(args)...)
        ->getResult(0);
  }
  Value bounded(Value x) { return make<nn::TanhOp>(x); }

  Value unary(Value x) {
    switch (draw(random, 6)) {
    case 0:
      return make<nn::NegOp>(x);
    case 1:
      return make<nn::ExpOp>(bounded(x));
    case 2:
      return make<nn::ReluOp>(x);
    case 3:
      return make<nn::SigmoidOp>(x);
    case 4:
      return make<nn::GeluOp>(x, UnitAttr());
    default:
      return bounded(x);
    }
  }
  Value binary(Value x) {
    Shape other(shapeOf(x));
    for (int64_t &dim : other)
      if (chance(random, 20))
        dim = 1;
    if (chance(random, 20))
      other.erase(other.begin());
    Value y = ofShape(other);
    switch (draw(random, 6)) {
    case 0:
      return make<nn::SubOp>(y, x);
    case 1:
      return make<nn::MulOp>(bounded(x), y);
    case 2:
      return make<nn::MaxOp>(x, y);
    case 3:
      return make<nn::MinOp>(x, y);
    default:
      return make<nn::AddOp>(x, y);
    }
  }
  Value matmul(Value x) {
    if (shapeOf(x).size() < 2)
      return unary(x);
    bool transposeLhs = chance(random, 20), transposeRhs = chance(random, 30);
    Shape shape(shapeOf(x));
    int64_t k = shape[shape.size() - (transposeLhs ? 2 : 1)], n = size();
    Shape other;
    if (chance(random, 30))
      for (int64_t dim : ArrayRef(shape).drop_back(2))
        other.push_back(chance(random, 25) ? 1 : dim);
    other.push_back(transposeRhs ? n : k);
    other.push_back(transposeRhs ? k : n);
    return make<nn::MatmulOp>(bounded(x), ofShape(other),
                              transposeLhs ? builder.getUnitAttr() : UnitAttr(),
                              transposeRhs ? builder.getUnitAttr()
                                           : UnitAttr());
  }
  Value reduce(Value x) {
    Shape dims;
    for (size_t dim = 0; dim < shapeOf(x).size(); ++dim)
      if (chance(random, 50))
        dims.push_back(dim);
    if (dims.empty() || dims.size() == shapeOf(x).size())
      dims = {dimOf(x)};
    if (shapeOf(x).size() == 1)
      return unary(x);
    auto kind = static_cast<nn::ReduceKind>(draw(random, 4));
    if (kind == nn::ReduceKind::Prod)
      x = bounded(x);
    return make<nn::ReduceOp>(x, kind, dims);
  }
  Value rows(Value x) {
    size_t dim = dimOf(x);
    if (chance(random, 50))
      return make<nn::SoftmaxOp>(x, dim);
    Shape inner(shapeOf(x).drop_front(dim));
    Value scale = ofShape(inner), bias = ofShape(inner);
    return make<nn::LayerNormOp>(x, scale, bias, dim, llvm::APFloat(1e-3));
  }
  Value move(Value x) {
    ArrayRef<int64_t> shape = shapeOf(x);
    size_t dim = dimOf(x);
    switch (draw(random, 6)) {
    case 0: {
      Shape perm(shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::shuffle(perm.begin(), perm.end(), random);
      return make<nn::TransposeOp>(x, perm);
    }
    case 1: { // split a dimension, or join two
      Shape to(shape);
      if (shape.size() > 1 && dim + 1 < shape.size()) {
        to[dim] *= to[dim + 1];
        to.erase(to.begin() + dim + 1);
      } else if (shape[dim] % 2 == 0) {
        to[dim] = 2;
        to.insert(to.begin() + dim + 1, shape[dim] / 2);
      }
      return make<nn::ReshapeOp>(floats(to), x);
    }
    case 2: {
      Shape other(shape);
      other[dim] = size();
      return make<nn::ConcatOp>(ValueRange{x, ofShape(other)}, dim);
    }
    case 3: {
      Shape starts(shape.size(), 0), sizes(shape), strides(shape.size(), 1);
      sizes[dim] = 1 + draw(random, shape[dim]);
      starts[dim] = draw(random, shape[dim] - sizes[dim] + 1);
      return make<nn::SliceOp>(x, starts, sizes, strides);
    }
    case 4: {
      Shape to(shape);
      to.insert(to.begin(), size());
      return make<nn::BroadcastOp>(floats(to), x);
    }
    default: // rows of x, by numbers from an input
      if (shape[0] < 4)
        return unary(x);
      return make<nn::GatherOp>(x, ids, builder.getI64IntegerAttr(0),
                                UnitAttr());
    }
  }
  Value iota(Value x) {
    Shape shape(shapeOf(x));
    size_t dim = dimOf(x);
    Value numbers = make<nn::IotaOp>(
        RankedTensorType::get(shape, builder.getI64Type()), dim);
    Value as = make<nn::CastOp>(floats(shape), numbers);
    return make<nn::AddOp>(x, make<nn::SinOp>(as));
  }

  void grow() {
    Value x = pick();
    Value y;
    int64_t kind = draw(random, 100);
    if (kind < 20)
      y = unary(x);
    else if (kind < 45)
      y = binary(x);
    else if (kind < 65)
      y = matmul(x);
    else if (kind < 75)
      y = reduce(x);
    else if (kind < 82)
      y = rows(x);
    else if (kind < 96)
      y = move(x);
    else
      y = iota(x);
    auto type = cast<RankedTensorType>(y.getType());
    if (type.getRank() >= 1 && type.getRank() <= 4 &&
        type.getNumElements() <= 1500)
      pool.push_back(y);
  }
};

} // namespace

OwningOpRef<ModuleOp> kerf::test::makeGraph(MLIRContext *context,
                                            Random &random, int numOps) {
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(builder, builder.getUnknownLoc());
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> inputs;
  int numInputs = 1 + draw(random, 2);
  for (int i = 0; i < numInputs; ++i) {
    Shape shape;
    for (int64_t rank = 1 + draw(random, 3); rank > 0; --rank)
      shape.push_back(1 + draw(random, 7));
    inputs.push_back(RankedTensorType::get(shape, builder.getF32Type()));
  }
  inputs.push_back(
      RankedTensorType::get({1 + draw(random, 5)}, builder.getI64Type()));
  auto main = func::FuncOp::create(builder, builder.getUnknownLoc(), "main",
                                   builder.getFunctionType(inputs, {}));
  Block *block = main.addEntryBlock();
  Grower grower{OpBuilder::atBlockEnd(block), random, {}, 0, 0, {}};
  for (BlockArgument argument : block->getArguments().drop_back())
    grower.pool.push_back(argument);
  grower.ids = block->getArguments().back();
  for (int i = 0; i < numOps; ++i)
    grower.grow();
  // Everything that nothing uses is a result, so that nothing is dead.
  SmallVector<Value> results;
  for (Value value : grower.pool)
    if (value.use_empty() && value.getDefiningOp())
      results.push_back(value);
  if (results.empty())
    results.push_back(grower.pool.back());
  if (chance(random, 20))
    results.push_back(grower.pick());
  func::ReturnOp::create(grower.builder, builder.getUnknownLoc(), results);
  SmallVector<Type> types;
  for (Value value : results)
    types.push_back(value.getType());
  main.setType(builder.getFunctionType(inputs, types));
  return module;
}

std::vector<interpret::Tensor> kerf::test::makeInputs(func::FuncOp main,
                                                      Random &random) {
  std::vector<interpret::Tensor> inputs;
  for (Type type : main.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    interpret::Tensor input(tensor.getShape());
    bool isFloat = isa<FloatType>(tensor.getElementType());
    for (double &value : input.data)
      value = isFloat ? (double(draw(random, 4001)) - 2000) / 1000
                      : double(draw(random, 8) - 4);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

interpret::Weights kerf::test::makeWeights(unsigned salt) {
  return [salt](Operation *op) {
    auto weight = cast<nn::WeightOp>(op);
    Random random(
        static_cast<unsigned>(std::stoi(weight.getName().drop_front().str())) +
        99 + 1000003 * salt);
    auto stored = cast<RankedTensorType>(weight.getStored());
    interpret::Tensor tensor(stored.getShape());
    for (double &value : tensor.data)
      value = (double(draw(random, 2001)) - 1000) / 1000;
    return tensor;
  };
}
