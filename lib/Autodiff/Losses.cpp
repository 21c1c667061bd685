//===- Losses.cpp - builds the loss ---------------------------------------===//
//
// Losses (LossRules.cpp) as sums over samples of elementwise ops and
// reductions, so that a class dimension can be cut
// (kerf/NN/Gradients/ClassLosses.h): cross entropy over a cut vocabulary costs
// three small reductions and none in the backward.
//
// A mean divides by the number of elements that count in the whole batch. That
// number depends on the labels alone, so hoistPrologue moves it to the
// prologue.
//
//===----------------------------------------------------------------------===//
#include "LossRules.h"
#include "OtherFrameworks.h"
#include "Step.h"

#include "kerf/Format/ClosestName.h"
#include "kerf/Format/StepScalars.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/NN/Gradients/ClassLosses.h"
#include "kerf/Support/DescribeType.h"
#include "kerf/Support/NarrowTypes.h"
#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {

class LossBuilder {
public:
  LossBuilder(Step &step)
      : step(step), spec(step.options.loss), rule(*findLoss(spec.name)),
        ops(step.ops), loc(step.named("loss")), b(ops, loc) {}

  FailureOr<Value> build();

private:
  FailureOr<Value> findPrediction();
  FailureOr<Value> findTarget(ArrayRef<int64_t> shape, Type element);
  FailureOr<Value> ofClasses(Value x);
  void noteProbabilities(Value x);
  bool isBatch(int64_t size) const;
  /// A number of each class as a constant; null where there is none.
  Value tableOf(ArrayRef<double> numbers);

  /// Of f64 as f32.
  Value narrowed(Value x) {
    return b.make<nn::CastOp>(typeOf(x).clone(Type(ops.getF32Type())), x);
  }
  Value sumAll(Value x) {
    SmallVector<int64_t> dims;
    for (int64_t dim = 0; dim < typeOf(x).getRank(); ++dim)
      dims.push_back(dim);
    return reduce(x, nn::ReduceKind::Sum, dims);
  }
  /// A reduction whose exchanges between ranks have the purpose `statistics`.
  Value reduce(Value x, nn::ReduceKind kind, ArrayRef<int64_t> dims) {
    step.tag.purpose = dist::Purpose::Statistics;
    Value result = b.reduce(x, kind, dims);
    step.tag.purpose.reset();
    return result;
  }
  Step &step;
  const LossSpec &spec;
  const LossRule &rule;
  Type predicted; ///< of elements of the model's output
  OpBuilder &ops;
  Location loc;
  GradientBuilder b;
};

} // namespace

/// The loss that is called so elsewhere or spelled nearly so, without a look at
/// "_"; empty: none is.
static std::string closestLoss(StringRef word) {
  if (std::optional<Meant> elsewhere = lossElsewhere(word))
    return elsewhere->name.str();
  auto plain = [](StringRef text) {
    std::string letters = text.lower();
    llvm::erase(letters, '_');
    return letters;
  };
  std::vector<std::string> names;
  for (const LossRule &each : lossRules())
    if (each.name != kOutputLoss) {
      if (plain(each.name) == plain(word))
        return each.name.str();
      names.push_back(plain(each.name));
    }
  std::string close = closestName(plain(word), names);
  for (const LossRule &each : lossRules())
    if (!close.empty() && plain(each.name) == close)
      return each.name.str();
  return "";
}

FailureOr<Value> LossBuilder::findPrediction() {
  std::vector<std::string> names;
  for (unsigned index = 0; index < step.main.getNumResults(); ++index) {
    auto name = step.main.getResultAttrOfType<StringAttr>(index, kNameAttr);
    if (name.getValue() != spec.prediction) {
      names.push_back(name.getValue().str());
      continue;
    }
    if (step.main.getResultAttr(index, kBoundedAttr))
      return step.request("option loss: the size of output '" +
                          spec.prediction +
                          "' is known only when the program runs; the model "
                          "itself may have a loss of its elements, "
                          "output(NAME)");
    Value value = step.terminator()->getOperand(index);
    noteProbabilities(value);
    if (!isa<RankedTensorType>(value.getType()) ||
        !isComputedFloat(typeOf(value).getElementType()))
      return step.request("option loss: output '" + spec.prediction + "' is " +
                          describeType(value.getType()) + ", expected floats");
    predicted = typeOf(value).getElementType();
    return isa<Float64Type>(predicted) ? narrowed(value) : b.widen(value);
  }
  std::string all = "'" + llvm::join(names, "', '") + "'";
  // A loss written as an optimizer is, without parentheses.
  StringRef word = StringRef(spec.prediction).take_while([](char c) {
    return llvm::isAlnum(c) || c == '_';
  });
  if (word != kOutputLoss && findLoss(word))
    return step.request("option loss: expected " + word +
                        "(OUTPUT,LABELS), with OUTPUT one of " + all);
  if (llvm::is_contained(names, spec.target))
    return step.request("option loss: the model has no output '" +
                        spec.prediction + "', but '" + spec.target +
                        "': the output comes first, as in " + spec.name + "(" +
                        spec.target + "," + spec.prediction + ")");
  std::string close = closestName(spec.prediction, names);
  std::string meant = close.empty() ? closestLoss(word) : "";
  if (!meant.empty())
    return step.request("option loss: '" + spec.prediction +
                        "' is no output and no loss, did you mean " + meant +
                        "(OUTPUT,LABELS)? OUTPUT is one of " + all);
  return step.request("option loss: the model has no output '" +
                      spec.prediction + "', " +
                      (close.empty() ? "expected one of " + all
                                     : "did you mean '" + close + "'?"));
}

/// Probabilities where the loss makes them itself are a mistake that trains,
/// and badly.
void LossBuilder::noteProbabilities(Value x) {
  Operation *def = x.getDefiningOp();
  while (isa_and_nonnull<nn::ReshapeOp, nn::CastOp>(def))
    def = def->getOperand(0).getDefiningOp();
  if (rule.expects && isa_and_nonnull<nn::LogSoftmaxOp>(def) &&
      rule.ofClasses && StringRef(rule.expects) == "logits")
    step.notes.push_back("option loss: output '" + spec.prediction +
                         "' is what LogSoftmax gives, whose loss is nll; " +
                         spec.name + " computes it again, to the same values");
  if (!rule.expects || !isa_and_nonnull<nn::SigmoidOp, nn::SoftmaxOp>(def))
    return;
  StringRef kind = isa<nn::SigmoidOp>(def) ? "Sigmoid" : "Softmax";
  Value read = def->getOperand(0);
  std::string better;
  for (OpOperand &end : step.terminator()->getOpOperands())
    if (end.get() == read)
      better = "its input is an output, too: " + spec.name + "(" +
               step.main
                   .getResultAttrOfType<StringAttr>(end.getOperandNumber(),
                                                    kNameAttr)
                   .str() +
               "," + spec.target + ")";
  if (better.empty())
    better =
        "train a model that gives the input of " + kind.str() +
        (read.getDefiningOp()
             ? ", which node '" + nodeName(read.getDefiningOp()) + "' computes"
             : "") +
        (rule.ofClasses ? ", or LogSoftmax of it, for nll" : "");
  step.notes.push_back(
      "warning: option loss: " + spec.name + " takes " + rule.expects +
      ", output '" + spec.prediction + "' is what " + kind.str() +
      " gives (node '" + nodeName(def) +
      "'): it trains, and badly, as it does "
      "in PyTorch, since the loss applies " +
      (rule.ofClasses ? "softmax" : "sigmoid") + " itself; " + better);
}

FailureOr<Value> LossBuilder::findTarget(ArrayRef<int64_t> shape,
                                         Type element) {
  if (isStepScalar(spec.target))
    return step.request("option loss: target '" + spec.target +
                        "': names that begin with '" + kStepScalarPrefix +
                        "' are those of numbers that the step is given");
  auto type = RankedTensorType::get(shape, element);
  Value known = step.argument(spec.target);
  if (known && rule.isOfClasses() &&
      llvm::any_of(known.getUsers(), llvm::IsaPred<nn::GatherOp>))
    step.notes.push_back(
        "option loss: the labels '" + spec.target +
        "' are what the model reads too, so that it sees its answers (of a "
        "language model each token is its own label, and not the next one); "
        "labels of another name are another array of the data");
  if (known && typeOf(known).getShape() == shape) {
    Type found = typeOf(known).getElementType();
    if (found == element)
      return known;
    if (isa<IntegerType>(found) == isa<IntegerType>(element))
      return b.make<nn::CastOp>(type, known);
  }
  if (known)
    return step.request("option loss: target '" + spec.target + "' is " +
                        describeType(known.getType()) + ", expected " +
                        describeType(type));
  // The leading dimension is the batch where the inputs' is.
  std::optional<int64_t> batchDim;
  for (unsigned index = 0; index < step.main.getNumArguments(); ++index) {
    auto dim = step.main.getArgAttrOfType<IntegerAttr>(index, kBatchDimAttr);
    if (!dim || shape.empty())
      continue;
    int64_t batch =
        typeOf(step.main.getArgument(index)).getDimSize(dim.getInt());
    if (batch > 0 && shape[0] % batch == 0)
      batchDim = 0;
  }
  return step.addArgument(spec.target, type, batchDim);
}

Value LossBuilder::tableOf(ArrayRef<double> numbers) {
  if (numbers.empty())
    return {};
  SmallVector<float> floats(numbers.begin(), numbers.end());
  auto type = RankedTensorType::get({static_cast<int64_t>(floats.size())},
                                    ops.getF32Type());
  return b.make<nn::ConstantOp>(
      cast<ElementsAttr>(DenseElementsAttr::get(type, ArrayRef(floats))));
}

/// Whether an input has a batch dimension of this size.
bool LossBuilder::isBatch(int64_t size) const {
  for (unsigned index = 0; index < step.main.getNumArguments(); ++index)
    if (auto dim =
            step.main.getArgAttrOfType<IntegerAttr>(index, kBatchDimAttr))
      if (typeOf(step.main.getArgument(index)).getDimSize(dim.getInt()) == size)
        return true;
  return false;
}

static std::string namesOfElementLosses() {
  SmallVector<StringRef> names;
  for (const LossRule &other : lossRules())
    if (other.ofElements)
      names.push_back(other.name);
  return llvm::join(ArrayRef(names).drop_back(), ", ") + " and " +
         names.back().str();
}

FailureOr<Value> LossBuilder::ofClasses(Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  if (shape.empty())
    return step.request("option loss: output '" + spec.prediction + "' is " +
                        describeType(x.getType()) +
                        ", expected classes in one of its dimensions");
  if (shape.size() == 1 && isBatch(shape[0]))
    return step.request("option loss: output '" + spec.prediction + "' is " +
                        describeType(x.getType()) +
                        ", one number for each sample of the batch, expected "
                        "classes in one of its dimensions; " +
                        namesOfElementLosses() + " take single numbers");
  int64_t rank = shape.size();
  int64_t dim = spec.classDim < 0 ? rank + spec.classDim : spec.classDim;
  if (dim < 0 || dim >= rank)
    return step.request("option loss: dim=" + std::to_string(spec.classDim) +
                        " is no dimension of output '" + spec.prediction +
                        "', " + describeType(x.getType()));
  int64_t classes = shape[dim];
  SmallVector<int64_t> labelShape(shape);
  labelShape.erase(labelShape.begin() + dim);
  FailureOr<Value> labels = findTarget(labelShape, ops.getI64Type());
  std::string where =
      "option loss: the classes of '" + spec.prediction + "' are its " +
      (dim == rank - 1 ? "last dimension, of "
                       : "dimension " + std::to_string(dim) + ", of ") +
      std::to_string(classes);
  if (dim != 1)
    where += "; dim=1 behind the names says dimension 1, of " +
             (rank > 1 ? std::to_string(shape[1]) : "");
  if (failed(labels) && rank > 2)
    step.note(where);
  if (failed(labels))
    return failure();
  // Images have them in dimension 1 more often, unlike [batch, tokens,
  // classes].
  if (rank > 3 && spec.classDim == LossSpec().classDim)
    step.notes.push_back(where);
  if (!spec.classWeights.empty() &&
      static_cast<int64_t>(spec.classWeights.size()) != classes) {
    if (dim != 1 && rank > 2)
      step.note(where);
    return step.request("option loss: weight has " +
                        std::to_string(spec.classWeights.size()) +
                        " numbers, output '" + spec.prediction + "' has " +
                        std::to_string(classes) + " classes");
  }
  // What random labels are drawn from.
  if (auto argument = dyn_cast<BlockArgument>(*labels))
    step.main.setArgAttr(argument.getArgNumber(), kRangeAttr,
                         ops.getI64ArrayAttr({0, classes}));
  nn::ClassLosses parts(
      ops, loc, x, *labels, dim, spec.ignoreIndex,
      [&](Value value, nn::ReduceKind kind, ArrayRef<int64_t> dims) {
        return reduce(value, kind, dims);
      });
  Value table = tableOf(spec.classWeights);
  Value perLabel = rule.ofClasses(b, spec, x, table, parts);
  perLabel = parts.zeroIgnored(perLabel);
  // That a label is in range is seen where its weight is read.
  if (!spec.mean)
    return sumAll(table ? perLabel : b.mul(perLabel, parts.weights(Value())));
  Value count = sumAll(parts.weights(table));
  return parts.mean(sumAll(perLabel), count);
}

FailureOr<Value> LossBuilder::build() {
  FailureOr<Value> x = findPrediction();
  if (failed(x))
    return failure();
  if (rule.isOfClasses())
    return ofClasses(*x);
  if (!rule.ofElements) {
    if (typeOf(*x).getNumElements() != 1)
      return step.request("option loss: output '" + spec.prediction + "' is " +
                          describeType(x->getType()) +
                          ", expected one number, or a loss such as "
                          "cross_entropy(" +
                          spec.prediction + ",labels)");
    return b.reshape(*x, {});
  }
  // Losses are of f32; what an f64 is compared with is given as f64.
  bool isWide = isa<Float64Type>(predicted);
  FailureOr<Value> target =
      findTarget(shapeOf(*x), isWide ? predicted : typeOf(*x).getElementType());
  if (failed(target))
    return failure();
  if (isWide)
    target = narrowed(*target);
  Value sum = sumAll(rule.ofElements(b, spec, *x, *target));
  return spec.mean
             ? b.mul(sum,
                     1.0 / static_cast<double>(typeOf(*x).getNumElements()))
             : sum;
}

FailureOr<Value> Step::buildLoss() {
  tag.isLoss = true;
  FailureOr<Value> loss = LossBuilder(*this).build();
  tag.isLoss = false;
  if (failed(loss))
    return mlir::failure();
  main.setFunctionType(
      FunctionType::get(context, main.getArgumentTypes(), loss->getType()));
  main.setAllResultAttrs(ArrayRef<Attribute>{ops.getDictionaryAttr(
      ops.getNamedAttr(kNameAttr, ops.getStringAttr(kLossOutput)))});
  return loss;
}
