//===- Boxes.cpp - types, rules and gradients of ops on boxes -------------===//
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

LogicalResult GreedySuppressOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, ValueRange operands,
    DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
    SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  RankedTensorType boxes = typeOf(op.getBoxes()),
                   scores = typeOf(op.getScores());
  // greedy_suppress C1
  ArrayRef<int64_t> corners = boxes.getShape(), shape = scores.getShape();
  if (shape.size() < 2 || corners.size() != shape.size() ||
      corners.back() != 4 || corners.drop_back(2) != shape.drop_back(2) ||
      corners[corners.size() - 2] != shape.back())
    return emitOptionalError(location, "boxes are ", boxes, " and scores ",
                             scores,
                             ", expected four numbers for each of the boxes "
                             "that the last dimension of scores counts");
  // greedy_suppress C2
  auto count = static_cast<int64_t>(op.getCount());
  if (count < 1 || count > shape.back())
    return emitOptionalError(location, "count is ", count,
                             ", expected 1 to the number of boxes, ",
                             shape.back());
  SmallVector<int64_t> kept(shape);
  kept.back() = count;
  types.push_back(
      RankedTensorType::get(kept, IntegerType::get(scores.getContext(), 64)));
  return success();
}

/// Samples and classes are independent of each other; classes share boxes.
ShardingRule GreedySuppressOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  ArrayRef<int64_t> shape = shapeOf(getScores());
  for (auto [d, size] : llvm::enumerate(shape.drop_back())) {
    if (size == 1)
      continue;
    DimFactors factors{rule.addFactor(size)};
    rule.operands[1][d] = rule.results[0][d] = factors;
    if (d + 2 < shape.size())
      rule.operands[0][d] = factors;
  }
  return rule;
}

Interval GreedySuppressOp::getInterval(unsigned, ArrayRef<Interval>) {
  return {-1, double(shapeOf(getScores()).back())};
}

FailureOr<SmallVector<Value>>
GreedySuppressOp::buildVectorJacobianProduct(OpBuilder &, ValueRange) {
  return SmallVector<Value>(4);
}
