//===- Losses.cpp - cross entropy and negative log likelihood -------------===//
//
// loss = -w[label] * log p[label] over the classes (dimension 1), picked by a
// comparison of the class index with the label, so that sharding the classes
// stays possible. The mean divides by the weights of the labels that count.
//
//===----------------------------------------------------------------------===//
#include "Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

static LogicalResult lossOf(Node &node, Value logProbabilities, Value labels,
                            Value weights) {
  Value x = logProbabilities;
  if (!x)
    return node.fail();
  std::string reduction = node.text("reduction", "mean");
  bool ignores = node.hasAttribute("ignore_index");
  int64_t ignored = node.integer("ignore_index", -1);
  if (node.failed)
    return failure();
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return node.error("reduction is \"" + reduction +
                      "\", expected none, sum or mean");
  ArrayRef<int64_t> shape = shapeOf(x);
  Integers labelShape(shape);
  if (shape.size() < 2)
    return node.error("scores have rank " + Twine(shape.size()) +
                      ", expected at least 2");
  labelShape.erase(labelShape.begin() + 1);
  if (shapeOf(labels) != ArrayRef<int64_t>(labelShape) ||
      !isa<IntegerType>(elementOf(labels)))
    return node.error("labels do not have the scores' shape without the "
                      "classes, or are not integers");
  int64_t classes = shape[1];
  if (weights && shapeOf(weights) != ArrayRef<int64_t>{classes})
    return node.error("weights must be a vector of " + Twine(classes) +
                      " elements");
  Integers wide(labelShape), axis(shape.size(), 1);
  wide.insert(wide.begin() + 1, 1);
  axis[1] = classes;
  Type element = elementOf(x), i64 = node.ops.getI64Type();
  Value label = node.reshape(node.cast(labels, i64), wide);
  Value hit =
      node.make<EqualOp>({label, node.reshape(node.iota(classes, i64), axis)});
  Value zero = node.scalar(0, element);
  Value weight =
      weights ? node.reshape(weights, axis) : node.scalar(1, element);
  if (ignores) {
    Value skip = node.make<EqualOp>({label, node.scalar(double(ignored), i64)});
    hit = node.make<AndOp>({hit, node.make<NotOp>({skip})});
  }
  Value counted = node.select(hit, weight, zero);
  Value picked = node.select(hit, x, zero);
  if (weights) {
    // Weights of classes are no parameters: no gradient goes to them.
    picked = node.mul(picked, counted);
    if (Operation *op = counted ? counted.getDefiningOp() : nullptr)
      op->setAttr("kerf.no_gradient", node.ops.getUnitAttr());
  }
  Value loss =
      node.make<NegOp>({node.reduce(picked, ReduceKind::Sum, {1}, false)});
  if (reduction == "none")
    return node.set(loss);
  Integers all;
  for (size_t dim = 0; dim < labelShape.size(); ++dim)
    all.push_back(int64_t(dim));
  Value sum = node.reduce(loss, ReduceKind::Sum, all, false);
  if (reduction == "sum" || !sum)
    return node.set(sum);
  Integers every(all);
  every.push_back(int64_t(all.size()));
  if (counted && shapeOf(counted) != shape)
    counted = node.broadcast(counted, shape);
  return node.set(
      node.div(sum, node.reduce(counted, ReduceKind::Sum, every, false)));
}

static LogicalResult negativeLogLikelihood(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  return lossOf(node, node.in(0), node.in(1), node.in(2));
}

static LogicalResult softmaxCrossEntropy(Node &node) {
  if (failed(node.arity(2, 3, 2)))
    return failure();
  if (rankOf(node.in(0)) < 2)
    return node.error("scores have rank " + Twine(rankOf(node.in(0))) +
                      ", expected at least 2");
  Value logs = node.make<LogSoftmaxOp>({node.in(0)}, {node.i64("dim", 1)});
  if (!logs || (node.outputs.size() > 1 && failed(node.set(1, logs))))
    return node.fail();
  return lossOf(node, logs, node.in(1), node.in(2));
}

void kerf::onnx_import::addLosses(HandlerTable &table) {
  table.add("NegativeLogLikelihoodLoss", 12, negativeLogLikelihood);
  table.add("SoftmaxCrossEntropyLoss", 12, softmaxCrossEntropy);
}
