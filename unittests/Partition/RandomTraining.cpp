//===- RandomTraining.cpp - random training steps -------------------------===//
//
// Forward ops are numbered, their gradients get the same number; a sum of two
// contributions that of the earlier user. What only sums for parameters need is
// backward_weight.
//
//===----------------------------------------------------------------------===//
#include "RandomTraining.h"

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::test;

namespace {

using Shape = SmallVector<int64_t>;

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

Value makeWeight(OpBuilder &builder, ArrayRef<int64_t> shape, int number) {
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  Location loc = NameLoc::get(builder.getStringAttr("w" + Twine(number)));
  auto weight = nn::WeightOp::create(
      builder, loc, Type(type), "w" + std::to_string(number), uint64_t(0),
      uint64_t(0), uint64_t(type.getNumElements() * 4), Type(type),
      DenseI64ArrayAttr());
  return weight;
}

struct Network {
  OpBuilder builder;
  Random &random;
  std::vector<Value> pool, weights;
  int numOps = 0;

  Location loc() {
    return NameLoc::get(builder.getStringAttr("op" + Twine(numOps++)));
  }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, loc(), std::forward<Args>(args)...)
        ->getResult(0);
  }
  /// A new weight, or one that there is: tied.
  Value weight(ArrayRef<int64_t> shape) {
    for (Value value : weights)
      if (shapeOf(value) == shape && chance(random, 75))
        return value;
    weights.push_back(makeWeight(builder, shape, weights.size()));
    return weights.back();
  }

  void layer() {
    Value x =
        pool[pool.size() - 1 - draw(random, std::min<size_t>(pool.size(), 3))];
    Shape shape(shapeOf(x));
    Value y;
    switch (draw(random, 9)) {
    case 0:
    case 1: // rows of features
      y = make<nn::MatmulOp>(make<nn::TanhOp>(x),
                             weight({shape.back(), 1 + draw(random, 6)}),
                             UnitAttr(), UnitAttr());
      break;
    case 2:
      y = make<nn::AddOp>(x, weight(Shape{shape.back()}));
      break;
    case 3:
      y = make<nn::MulOp>(make<nn::TanhOp>(x),
                          weight(ArrayRef(shape).drop_front()));
      break;
    case 4:
      y = chance(random, 50)
              ? make<nn::SoftmaxOp>(x, shape.size() - 1)
              : make<nn::LayerNormOp>(x, weight(Shape{shape.back()}),
                                      weight(Shape{shape.back()}),
                                      shape.size() - 1, llvm::APFloat(1e-3));
      break;
    case 5: { // features to rows of features and back
      int64_t features = 1;
      for (int64_t size : ArrayRef(shape).drop_front())
        features *= size;
      Shape to = {shape[0], features};
      if (shape.size() == 2 && features % 2 == 0)
        to = {shape[0], 2, features / 2};
      y = make<nn::ReshapeOp>(RankedTensorType::get(to, builder.getF32Type()),
                              x);
      break;
    }
    case 6: {
      Shape perm(shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::shuffle(perm.begin() + 1, perm.end(), random);
      y = make<nn::TransposeOp>(x, perm);
      break;
    }
    case 7: {
      std::vector<Value> fitting;
      for (Value value : pool)
        if (shapeOf(value) == ArrayRef(shape))
          fitting.push_back(value);
      y = make<nn::AddOp>(x, fitting[draw(random, fitting.size())]);
      break;
    }
    default:
      y = chance(random, 50) ? make<nn::GeluOp>(x, UnitAttr())
                             : make<nn::SigmoidOp>(x);
    }
    pool.push_back(y);
  }
};

} // namespace

OwningOpRef<ModuleOp> kerf::test::makeNetwork(MLIRContext *context,
                                              Random &random, int numLayers,
                                              int64_t batch) {
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(builder, builder.getUnknownLoc());
  builder.setInsertionPointToEnd(module->getBody());
  auto type =
      RankedTensorType::get({batch, 1 + draw(random, 6)}, builder.getF32Type());
  auto main = func::FuncOp::create(builder, builder.getUnknownLoc(), "main",
                                   builder.getFunctionType({type}, {}));
  Block *block = main.addEntryBlock();
  Network network{OpBuilder::atBlockEnd(block), random, {}, {}};
  network.pool.push_back(block->getArgument(0));
  for (int i = 0; i < numLayers; ++i)
    network.layer();
  Value result = network.pool.back();
  func::ReturnOp::create(network.builder, builder.getUnknownLoc(), result);
  main.setType(builder.getFunctionType({type}, {result.getType()}));
  return module;
}

namespace {

class Differentiator {
public:
  Differentiator(func::FuncOp main, Random &random)
      : main(main), block(main.getBody().front()), random(random),
        builder(block.getTerminator()) {}

  bool run() {
    removeDead();
    number();
    buildLoss();
    if (!buildGradients() || gradients.empty())
      return false;
    removeDead();
    markWeightPhase();
    buildUpdate();
    finish();
    return true;
  }

private:
  Location loc() {
    return NameLoc::get(builder.getStringAttr("step" + Twine(numOps++)));
  }

  /// Attributes for all ops after `last`.
  void mark(Operation *last, Phase phase, std::optional<int64_t> colocation) {
    for (Operation *op = last ? last->getNextNode() : &block.front();
         op != block.getTerminator(); op = op->getNextNode()) {
      if (isa<SourceOpInterface>(op))
        continue;
      if (phase != Phase::Forward)
        setPhase(op, phase);
      if (colocation)
        setColocation(op, colocation);
    }
  }
  Operation *lastOp() {
    return &block == block.getTerminator()->getBlock() &&
                   block.getTerminator()->getPrevNode()
               ? block.getTerminator()->getPrevNode()
               : nullptr;
  }

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, loc(), std::forward<Args>(args)...)
        ->getResult(0);
  }
  Value splat(ArrayRef<int64_t> shape, float value) {
    auto type = RankedTensorType::get(shape, builder.getF32Type());
    return nn::ConstantOp::create(
        builder, loc(),
        cast<ElementsAttr>(DenseElementsAttr::get(type, value)));
  }
  Value total(Value x) {
    Shape dims(shapeOf(x).size());
    std::iota(dims.begin(), dims.end(), 0);
    return dims.empty() ? x : make<nn::ReduceOp>(x, nn::ReduceKind::Sum, dims);
  }

  void number() {
    for (Operation &op : block.without_terminator()) {
      if (!isa<SourceOpInterface>(op))
        setColocation(&op, next++);
      if (auto weight = dyn_cast<nn::WeightOp>(op)) {
        weight.setVariable(true);
        trained.insert(weight);
      }
      for (Value operand : op.getOperands())
        if (trained.contains(operand))
          for (Value result : op.getResults())
            trained.insert(result);
      forward.push_back(&op);
    }
  }

  /// The sum of all results' elements over a number that the whole batch has.
  void buildLoss() {
    Operation *last = lastOp();
    Value x = block.getArgument(0);
    count = total(make<nn::MulOp>(x, x));
    count = make<nn::AddOp>(count, splat({}, 4));
    mark(last, Phase::Prologue, next++);
    for (Value result : block.getTerminator()->getOperands()) {
      last = lastOp();
      Value part = make<nn::TanhOp>(result);
      mark(last, Phase::Forward, next++);
      last = lastOp();
      part = total(part);
      mark(last, Phase::Forward, next++);
      last = lastOp();
      loss = loss ? make<nn::AddOp>(loss, part) : part;
      mark(last, Phase::Forward, next++);
    }
    last = lastOp();
    loss = make<nn::DivOp>(loss, count);
    mark(last, Phase::Forward, next++);
    forward.clear();
    for (Operation &op : block.without_terminator()) {
      for (Value operand : op.getOperands())
        if (trained.contains(operand))
          for (Value result : op.getResults())
            trained.insert(result);
      forward.push_back(&op);
    }
  }

  bool buildGradients() {
    llvm::DenseMap<Value, Value> gradientOf;
    gradientOf[loss] = splat({}, 1);
    for (Operation *op : llvm::reverse(forward)) {
      std::optional<int64_t> number = getColocation(op);
      bool wanted = llvm::any_of(op->getOperands(), [&](Value operand) {
        return trained.contains(operand);
      });
      SmallVector<Value> results;
      for (Value result : op->getResults())
        results.push_back(gradientOf.lookup(result));
      if (!wanted || isa<SourceOpInterface>(op) ||
          llvm::all_of(results, [](Value g) { return !g; }))
        continue;
      auto interface = dyn_cast<DifferentiableInterface>(op);
      if (!interface)
        return false;
      Operation *last = lastOp();
      auto operands = interface.buildVectorJacobianProduct(builder, results);
      if (failed(operands))
        return false;
      for (auto [operand, gradient] : llvm::zip(op->getOperands(), *operands)) {
        if (!gradient || !trained.contains(operand))
          continue;
        Value &sum = gradientOf[operand];
        sum = sum ? make<nn::AddOp>(sum, gradient) : gradient;
      }
      mark(last, Phase::BackwardInput, *number);
    }
    for (Operation *op : forward)
      if (auto weight = dyn_cast<nn::WeightOp>(op))
        if (Value gradient = gradientOf.lookup(weight)) {
          int64_t first = next;
          for (Operation *user : weight->getUsers())
            if (std::optional<int64_t> number = getColocation(user))
              first = std::min(first, *number);
          Operation *last = lastOp();
          Value sum = make<AccumulateOp>(gradient.getType(), gradient, Value());
          setPurpose(sum.getDefiningOp(), Purpose::Gradient);
          mark(last, Phase::BackwardWeight, first);
          gradients[weight] = {sum, first};
        }
    return true;
  }

  void removeDead() {
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty() && op->getNumResults() > 0 &&
          !gradientsHave(op->getResult(0)) && op->getResult(0) != loss)
        op->erase();
  }
  bool gradientsHave(Value value) {
    return llvm::any_of(gradients, [&](auto &entry) {
      return entry.second.first == value || entry.first == value;
    });
  }

  void markWeightPhase() {
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (getPhase(&op) == Phase::BackwardInput &&
          llvm::all_of(op.getUsers(), [&](Operation *user) {
            return getPhase(user) == Phase::BackwardWeight;
          }))
        setPhase(&op, Phase::BackwardWeight);
  }

  void buildUpdate() {
    Value scale;
    if (chance(random, 50)) { // clip by the norm of all
      for (auto &[weight, entry] : gradients) {
        Operation *last = lastOp();
        Value square = total(make<nn::MulOp>(entry.first, entry.first));
        mark(last, Phase::Update, entry.second);
        last = lastOp();
        scale = scale ? make<nn::AddOp>(scale, square) : square;
        mark(last, Phase::Update, std::nullopt);
      }
      Operation *last = lastOp();
      scale = make<nn::MinOp>(
          make<nn::RsqrtOp>(make<nn::AddOp>(scale, splat({}, 1e-6f))),
          splat({}, 1));
      mark(last, Phase::Update, std::nullopt);
    }
    Value rate = block.addArgument(
        RankedTensorType::get({}, builder.getF32Type()), loc());
    bool momentum = chance(random, 50);
    for (auto &[weight, entry] : gradients) {
      Operation *last = lastOp();
      Value step = entry.first;
      if (scale)
        step = make<nn::MulOp>(step, scale);
      if (momentum) {
        auto name = cast<nn::WeightOp>(weight.getDefiningOp()).getName();
        Value old = nn::StateOp::create(builder, loc(), weight.getType(),
                                        ("v" + name.drop_front()).str(),
                                        builder.getF32FloatAttr(0));
        step = make<nn::AddOp>(make<nn::MulOp>(old, splat({}, 0.5f)), step);
        AssignOp::create(builder, loc(), old, step);
      }
      Value value = make<nn::SubOp>(weight, make<nn::MulOp>(step, rate));
      AssignOp::create(builder, loc(), weight, value);
      mark(last, Phase::Update, entry.second);
    }
  }

  void finish() {
    Operation *last = lastOp();
    int64_t number = *getColocation(loss.getDefiningOp());
    Value reported = make<AccumulateOp>(loss.getType(), loss, Value());
    mark(last, Phase::Forward, number);
    SmallVector<Value> results = {reported};
    if (chance(random, 30)) // predictions, as they were made
      llvm::append_range(results, block.getTerminator()->getOperands());
    block.getTerminator()->setOperands(results);
    main.setType(FunctionType::get(builder.getContext(),
                                   block.getArgumentTypes(),
                                   block.getTerminator()->getOperandTypes()));
    main.setAllArgAttrs(SmallVector<DictionaryAttr>(
        block.getNumArguments(), DictionaryAttr::get(builder.getContext())));
  }

  func::FuncOp main;
  Block &block;
  Random &random;
  OpBuilder builder;
  int64_t next = 0, numOps = 0;
  llvm::DenseSet<Value> trained;
  std::vector<Operation *> forward;
  Value loss, count;
  llvm::MapVector<Value, std::pair<Value, int64_t>> gradients;
};

} // namespace

bool kerf::test::makeTrainingStep(ModuleOp module, Random &random) {
  return Differentiator(module.lookupSymbol<func::FuncOp>("main"), random)
      .run();
}

bool kerf::test::makeAutodiffStep(ModuleOp module, Random &random) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  OpBuilder builder(module.getContext());
  main.setArgAttr(0, kNameAttr, builder.getStringAttr("x"));
  main.setArgAttr(0, kBatchDimAttr, builder.getI64IntegerAttr(0));
  main.setResultAttr(0, kNameAttr, builder.getStringAttr("y"));
  autodiff::AutodiffOptions options;
  bool classes =
      cast<RankedTensorType>(main.getResultTypes()[0]).getRank() == 2;
  options.loss.name = classes && chance(random, 50) ? "cross_entropy" : "mse";
  options.loss.prediction = "y";
  options.loss.target = "t";
  const char *optimizers[] = {"sgd", "adam", "adamw", "adagrad", "rmsprop"};
  std::string optimizer = optimizers[draw(random, 5)];
  if (chance(random, 50) && optimizer == "sgd")
    optimizer += ",momentum=0.5";
  if (chance(random, 50))
    optimizer += ",wd=0.01";
  options.optimizer = llvm::cantFail(autodiff::parseOptimizer(optimizer));
  if (chance(random, 40))
    options.clipNorm = 0.1;
  options.skipNonFinite = chance(random, 30);
  autodiff::AutodiffFailure failure;
  return succeeded(autodiff::differentiate(module, options, failure));
}

std::vector<interpret::Tensor> kerf::test::makeStepInputs(func::FuncOp main,
                                                          Random &random) {
  std::vector<interpret::Tensor> inputs = makeInputs(main, random);
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr);
    auto type = cast<RankedTensorType>(main.getArgumentTypes()[i]);
    if (!name)
      continue;
    if (name.getValue().starts_with("train."))
      inputs[i].data.assign(1, type.getElementType().isInteger(64) ? 3 : 0.25);
    // Class 0 is in every set of classes; the others may be out of range.
    if (name.getValue() == "t" && isa<IntegerType>(type.getElementType()))
      inputs[i].data.assign(inputs[i].data.size(), 0);
  }
  return inputs;
}
