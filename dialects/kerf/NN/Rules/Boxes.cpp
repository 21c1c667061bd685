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
                   candidates = typeOf(op.getCandidates());
  // greedy_suppress C1
  ArrayRef<int64_t> shape = boxes.getShape();
  if (shape.size() < 2 || shape.back() != 4 ||
      shape.drop_back() != candidates.getShape())
    return emitOptionalError(location, "boxes are ", boxes, " and candidates ",
                             candidates,
                             ", expected four numbers for each candidate");
  types.push_back(candidates);
  return success();
}

/// Rows are independent of each other.
ShardingRule GreedySuppressOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  for (auto [d, size] : llvm::enumerate(shapeOf(getCandidates()).drop_back()))
    if (size != 1)
      rule.operands[0][d] = rule.operands[1][d] = rule.results[0][d] =
          DimFactors{rule.addFactor(size)};
  return rule;
}

Interval GreedySuppressOp::getInterval(unsigned, ArrayRef<Interval>) {
  return Interval::all();
}

FailureOr<SmallVector<Value>>
GreedySuppressOp::buildVectorJacobianProduct(OpBuilder &, ValueRange) {
  return SmallVector<Value>(3);
}
