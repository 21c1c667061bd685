//===- Attention.cpp - interfaces of attention and its gradient -----------===//
//
// Types, factors, cost and vector-Jacobian product of the two ops of
// NNAttention.td. Heads have two factors: key heads, and the heads that share
// one. Only the major factor can be cut, so heads stay with their keys.
//===----------------------------------------------------------------------===//
#include "../Gradients/GradientBuilder.h"
#include "../IR/PatternUtils.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

using Types = SmallVectorImpl<Type>;
using TensorTypes = ArrayRef<RankedTensorType>;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static LogicalResult inferAttention(std::optional<Location> location, Value q,
                                    Value k, Value v, Value bias,
                                    Types &types) {
  // attention C1
  for (Value operand : {q, k, v})
    if (rankOf(operand) != 4 ||
        typeOf(operand).getElementType() != typeOf(q).getElementType() ||
        shapeOf(operand)[0] != shapeOf(q)[0])
      return emitOptionalError(location, "q, k and v are ", q.getType(), ", ",
                               k.getType(), " and ", v.getType(),
                               ", expected rank 4, one batch and one element "
                               "type");
  ArrayRef<int64_t> qs = shapeOf(q), ks = shapeOf(k), vs = shapeOf(v);
  // attention C2
  if (ks[1] != vs[1] || ks[2] != vs[2] || ks[1] == 0 || qs[1] % ks[1])
    return emitOptionalError(location, "heads or lengths of ", q.getType(),
                             ", ", k.getType(), " and ", v.getType(),
                             " do not fit");
  // attention C3
  if (qs[3] != ks[3])
    return emitOptionalError(location, "q has heads of size ", qs[3],
                             ", k has heads of size ", ks[3]);
  // attention C5
  if (ks[2] == 0)
    return emitOptionalError(location, "expected at least one key");
  // attention C4
  SmallVector<int64_t> scores{qs[0], qs[1], qs[2], ks[2]};
  if (bias) {
    auto joint = broadcastShapes(scores, shapeOf(bias));
    if (rankOf(bias) != 4 || !joint || *joint != scores)
      return emitOptionalError(
          location, "bias is ", bias.getType(),
          ", expected one of rank 4 that broadcasts to scores of shape ",
          scores);
  }
  Type element = typeOf(q).getElementType();
  types.push_back(typeOf(q).clone({qs[0], qs[1], qs[2], vs[3]}));
  types.push_back(RankedTensorType::get(
      qs.take_front(3),
      element.isF64() ? element : Float32Type::get(q.getContext())));
  return success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            ValueRange operands,
                                            DictionaryAttr attributes,
                                            OpaqueProperties properties,
                                            RegionRange regions, Types &types) {
  Adaptor op(operands, attributes, properties, regions);
  return inferAttention(location, op.getQ(), op.getK(), op.getV(), op.getBias(),
                        types);
}

LogicalResult AttentionGradientOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, ValueRange operands,
    DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
    Types &types) {
  Adaptor op(operands, attributes, properties, regions);
  SmallVector<Type> forward;
  if (failed(inferAttention(location, op.getQ(), op.getK(), op.getV(),
                            op.getBias(), forward)))
    return failure();
  // attention_gradient C1, C2
  if (op.getResult().getType() != forward[0] ||
      op.getStats().getType() != forward[1] ||
      op.getDy().getType() != forward[0])
    return emitOptionalError(
        location, "result, stats and dy are ", op.getResult().getType(), ", ",
        op.getStats().getType(), " and ", op.getDy().getType(), ", expected ",
        forward[0], ", ", forward[1], " and ", forward[0]);
  for (Value operand : {op.getQ(), op.getK(), op.getV()})
    types.push_back(operand.getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

namespace {
/// The factors of all dimensions of the scores but the last, which is never
/// cut.
struct Factors {
  ShardingRule rule;
  DimFactors batch, keyHeads, heads, queries;

  Factors(Operation *op, Value q, Value k, bool sharesKeys, bool cutsQueries)
      : rule(replicatedShardingRule(op)) {
    auto add = [&](int64_t size) {
      return size == 1 ? DimFactors{} : DimFactors{rule.addFactor(size)};
    };
    int64_t keys = shapeOf(k)[1], group = shapeOf(q)[1] / keys;
    batch = add(shapeOf(q)[0]);
    keyHeads = heads = add(keys);
    if (group > 1 && (keys > 1 || sharesKeys))
      heads.append(add(group));
    // A second factor of a dimension is no factor of keys' results.
    if (group > 1 && !sharesKeys) {
      for (unsigned factor : ArrayRef(heads).drop_front(keyHeads.size()))
        rule.factors[factor].kind = FactorKind::Replicated;
    }
    if (cutsQueries)
      queries = add(shapeOf(q)[2]);
  }

  void setQuery(TensorFactors &tensor) const {
    tensor[0] = batch;
    tensor[1] = heads;
    tensor[2] = queries;
  }
  void setKey(TensorFactors &tensor) const {
    tensor[0] = batch;
    tensor[1] = keyHeads;
  }
  void setBias(TensorFactors &tensor, Value bias) const {
    setQuery(tensor);
    for (auto [dim, size] : llvm::enumerate(shapeOf(bias)))
      if (size == 1)
        tensor[dim].clear();
  }
};
} // namespace

ShardingRule AttentionOp::getShardingRule() {
  Factors factors(getOperation(), getQ(), getK(), /*sharesKeys=*/true,
                  /*cutsQueries=*/!getCausal());
  ShardingRule &rule = factors.rule;
  factors.setQuery(rule.operands[0]);
  factors.setKey(rule.operands[1]);
  factors.setKey(rule.operands[2]);
  if (getBias())
    factors.setBias(rule.operands[3], getBias());
  factors.setQuery(rule.results[0]);
  factors.setQuery(rule.results[1]);
  return rule;
}

ShardingRule AttentionGradientOp::getShardingRule() {
  Factors factors(getOperation(), getQ(), getK(), /*sharesKeys=*/false,
                  /*cutsQueries=*/false);
  ShardingRule &rule = factors.rule;
  for (unsigned operand : {0, 3, 4, 5})
    factors.setQuery(rule.operands[operand]);
  factors.setKey(rule.operands[1]);
  factors.setKey(rule.operands[2]);
  if (getBias())
    factors.setBias(rule.operands[6], getBias());
  factors.setQuery(rule.results[0]);
  factors.setKey(rule.results[1]);
  factors.setKey(rule.results[2]);
  rule.linearGroups = {{5}};
  rule.multipliers = {0, 1, 2, 3};
  return rule;
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

/// Pairs of a query and a key that the mask lets it see.
static int64_t pairs(TensorTypes operands, bool causal) {
  ArrayRef<int64_t> q = operands[0].getShape(), k = operands[1].getShape();
  int64_t seen = q[2] * k[2];
  if (causal) {
    int64_t rising = std::min(q[2], k[2]);
    seen = rising * (rising + 1) / 2 + (q[2] - rising) * k[2];
  }
  return q[0] * q[1] * seen;
}

int64_t AttentionOp::getFlops(TensorTypes operands, TensorTypes) {
  int64_t d = operands[0].getDimSize(3), e = operands[2].getDimSize(3);
  return pairs(operands, getCausal()) * (2 * (d + e) + 14);
}
CostClass AttentionOp::getCostClass() { return CostClass::Matmul; }
LibraryWork AttentionOp::getLibraryWork() { return LibraryWork::Call; }

EpilogueStep AttentionOp::getEpilogueStep() { return EpilogueStep::None; }
int64_t AttentionOp::getJoinedDim() { return -1; }

int64_t AttentionGradientOp::getFlops(TensorTypes operands, TensorTypes) {
  int64_t d = operands[0].getDimSize(3), e = operands[2].getDimSize(3);
  return pairs(operands, getCausal()) * (6 * d + 4 * e + 14);
}
CostClass AttentionGradientOp::getCostClass() { return CostClass::Matmul; }
LibraryWork AttentionGradientOp::getLibraryWork() { return LibraryWork::Call; }

EpilogueStep AttentionGradientOp::getEpilogueStep() {
  return EpilogueStep::None;
}
int64_t AttentionGradientOp::getJoinedDim() { return -1; }

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

Gradients AttentionOp::buildVectorJacobianProduct(OpBuilder &builder,
                                                  ValueRange resultGradients) {
  SmallVector<Value> gradients(getNumOperands());
  if (resultGradients.size() > 1 && resultGradients[1])
    return emitOpError("the statistics have no gradient"), failure();
  Value dy = resultGradients[0];
  if (!dy || getResult().getType().getNumElements() == 0)
    return gradients;
  auto op = AttentionGradientOp::create(
      builder, getLoc(), getQ(), getK(), getV(), getResult(), getStats(), dy,
      getBias(), getScaleAttr(), getCausalAttr());
  for (unsigned operand : {0, 1, 2})
    if (isDifferentiable(getOperand(operand)))
      gradients[operand] = op->getResult(operand);
  return gradients;
}
