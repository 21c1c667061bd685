//===- Losses.cpp - cross entropy and negative log likelihood -------------===//
//
// loss = -w[label] * log p[label] over the classes (dimension 1), built like
// the losses of training (kerf/NN/Gradients/ClassLosses.h): the classes can be
// cut, and a label out of range is an error at run time. The mean divides by
// the weights of the labels that are not ignored.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/Gradients/ClassLosses.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

namespace {

struct Attributes {
  std::string reduction;
  std::optional<int64_t> ignoreIndex;
};

} // namespace

/// Reads the attributes; fails if they or the shapes of the inputs are invalid.
static std::optional<Attributes> check(Node &node) {
  Value x = node.in(0), labels = node.in(1), weights = node.in(2);
  Attributes result{node.text("reduction", "mean"), std::nullopt};
  if (node.hasAttribute("ignore_index"))
    result.ignoreIndex = node.integer("ignore_index", -1);
  if (node.failed)
    return std::nullopt;
  auto wrong = [&](const Twine &message) -> std::optional<Attributes> {
    (void)node.error(message);
    return std::nullopt;
  };
  StringRef reduction = result.reduction;
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return wrong("reduction is \"" + reduction +
                 "\", expected none, sum or mean");
  ArrayRef<int64_t> shape = shapeOf(x);
  if (shape.size() < 2)
    return wrong("scores have rank " + Twine(shape.size()) +
                 ", expected at least 2");
  SmallVector<int64_t> labelShape(shape);
  labelShape.erase(labelShape.begin() + 1);
  if (shapeOf(labels) != ArrayRef<int64_t>(labelShape) ||
      !isa<IntegerType>(elementOf(labels)))
    return wrong("labels do not have the scores' shape without the "
                 "classes, or are not integers");
  if (weights && shapeOf(weights) != ArrayRef<int64_t>{shape[1]})
    return wrong("weights must be a vector of " + Twine(shape[1]) +
                 " elements");
  if (!isa<FloatType>(elementOf(x)))
    return wrong("scores must be floats");
  return result;
}

/// Records the range of labels: random ones are drawn from it, data are checked
/// against it.
static void describeLabels(Node &node, Value labels, int64_t classes,
                           std::optional<int64_t> ignoreIndex) {
  auto argument = dyn_cast<BlockArgument>(labels);
  auto main = dyn_cast_or_null<func::FuncOp>(
      argument ? argument.getOwner()->getParentOp() : nullptr);
  if (!main)
    return;
  main.setArgAttr(argument.getArgNumber(), kRangeAttr,
                  node.ops.getI64ArrayAttr({0, classes}));
  if (ignoreIndex)
    main.setArgAttr(argument.getArgNumber(), kIgnoreIndexAttr,
                    node.ops.getI64IntegerAttr(*ignoreIndex));
}

/// The loss of scores or, with `softmax`, of their logarithmic softmax, which
/// is output 1.
static LogicalResult lossOf(Node &node, bool softmax) {
  std::optional<Attributes> attributes = check(node);
  if (!attributes)
    return failure();
  GradientBuilder b(node.ops, node.loc);
  Value labels = node.cast(node.in(1), node.ops.getI64Type());
  Value x = b.widen(node.in(0)), table = node.in(2);
  if (!labels)
    return node.fail();
  if (table)
    table = b.widen(table);
  ClassLosses parts(node.ops, node.loc, x, labels, /*dim=*/1,
                    attributes->ignoreIndex);
  describeLabels(node, node.in(1), parts.numClasses(), attributes->ignoreIndex);
  Value perLabel;
  if (softmax) {
    Value shifted = parts.shifted(x), log = parts.logSum(shifted);
    perLabel = b.sub(log, parts.picked(shifted));
    if (node.outputs.size() > 1 &&
        failed(node.set(
            1, b.castLike(b.sub(shifted, parts.column(log)), node.in(0)))))
      return node.fail();
  } else {
    perLabel = b.neg(parts.picked(x));
  }
  perLabel = parts.zeroIgnored(perLabel);
  auto weights = [&] { return b.castLike(parts.weights(table), x); };
  Value result;
  if (attributes->reduction == "mean") {
    // Without weights of classes the denominator is the number of labels that
    // are not ignored; it depends on data alone.
    Value count = weights();
    result = parts.mean(parts.sumAll(table ? b.mul(perLabel, count) : perLabel),
                        parts.sumAll(count));
  } else {
    result = b.mul(perLabel, weights());
    if (attributes->reduction == "sum")
      result = parts.sumAll(result);
  }
  return node.set(b.castLike(result, node.in(0)));
}

static LogicalResult negativeLogLikelihood(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  return lossOf(node, /*softmax=*/false);
}

static LogicalResult softmaxCrossEntropy(Node &node) {
  if (failed(node.arity(2, 3, 2)))
    return failure();
  return lossOf(node, /*softmax=*/true);
}

void kerf::onnx_import::addLosses(HandlerTable &table) {
  table.add("NegativeLogLikelihoodLoss", 12, negativeLogLikelihood);
  table.add("SoftmaxCrossEntropyLoss", 12, softmaxCrossEntropy);
}
