//===- AnyOp.cpp - ops and values of any dialect --------------------------===//
#include "kerf/Interfaces/AnyOp.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace kerf;

bool kerf::canBeCut(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         tensor.getElementType().isIntOrFloat();
}

RankedTensorType kerf::plannedType(Type type) {
  if (canBeCut(type))
    return cast<RankedTensorType>(type);
  return RankedTensorType::get({}, IntegerType::get(type.getContext(), 64));
}

ShardingRule kerf::shardingRuleOf(Operation *op) {
  if (auto interface = dyn_cast<ShardingRuleInterface>(op))
    return interface.getShardingRule();
  return replicatedShardingRule(op);
}

bool kerf::isSameRule(const ShardingRule &a, const ShardingRule &b) {
  auto isSameFactor = [](const Factor &x, const Factor &y) {
    return x.size == y.size && x.kind == y.kind && x.reduction == y.reduction &&
           x.masksItself == y.masksItself && x.mustDivide == y.mustDivide;
  };
  auto isSameFill = [](const ShardingRule::PaddingFill &x,
                       const ShardingRule::PaddingFill &y) {
    return x.operand == y.operand && x.value == y.value;
  };
  return llvm::equal(a.factors, b.factors, isSameFactor) &&
         a.operands == b.operands && a.results == b.results &&
         a.linearGroups == b.linearGroups &&
         a.isLinearInTime == b.isLinearInTime &&
         a.multipliers == b.multipliers && a.divisors == b.divisors &&
         llvm::equal(a.paddingFills, b.paddingFills, isSameFill);
}

/// Attributes that say what an op computes, but for its properties. Those of
/// dialects without ops (kerf has none) and of dist on ops of others say what
/// was decided about it.
static SmallVector<NamedAttribute> computedAttrs(Operation *op) {
  SmallVector<NamedAttribute> attrs;
  for (NamedAttribute attr : op->getRawDictionaryAttrs()) {
    auto [prefix, rest] = attr.getName().getValue().split('.');
    if (rest.empty() || (prefix != "kerf" && prefix != "dist"))
      attrs.push_back(attr);
  }
  return attrs;
}

static bool areSameProperties(Operation *a, Operation *b) {
  return !a->getPropertiesStorage() ||
         a->getName().compareOpProperties(a->getPropertiesStorage(),
                                          b->getPropertiesStorage());
}

bool kerf::isSameComputation(Operation *a, Operation *b) {
  if (a->getName() != b->getName() ||
      a->getOperandTypes() != b->getOperandTypes() ||
      a->getResultTypes() != b->getResultTypes() || !areSameProperties(a, b) ||
      computedAttrs(a) != computedAttrs(b) ||
      a->getNumRegions() != b->getNumRegions())
    return false;
  for (auto [left, right] : llvm::zip(a->getRegions(), b->getRegions())) {
    DenseMap<Value, Value> equal;
    auto isOutside = [](Region *region, Value value) {
      return !region->isAncestor(value.getParentRegion());
    };
    auto check = [&, left = &left, right = &right](Value x, Value y) {
      if (isOutside(left, x) || isOutside(right, y))
        return success(isOutside(left, x) && isOutside(right, y));
      auto found = equal.find(x);
      return success(found == equal.end() ? x == y : found->second == y);
    };
    auto mark = [&](Value x, Value y) { equal[x] = y; };
    if (!OperationEquivalence::isRegionEquivalentTo(
            &left, &right, check, mark, OperationEquivalence::IgnoreLocations))
      return false;
  }
  return true;
}

llvm::hash_code kerf::hashComputation(Operation *op) {
  SmallVector<NamedAttribute> attrs = computedAttrs(op);
  llvm::hash_code hash = llvm::hash_combine(
      op->getName(), op->hashProperties(),
      llvm::hash_combine_range(attrs.begin(), attrs.end()),
      llvm::hash_combine_range(op->operand_type_begin(),
                               op->operand_type_end()),
      llvm::hash_combine_range(op->result_type_begin(), op->result_type_end()));
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      hash = llvm::hash_combine(hash, inner->getName());
    });
  return hash;
}

SmallVector<Value> kerf::capturedValues(Operation *op) {
  if (op->getNumRegions() == 0)
    return {};
  llvm::SetVector<Value> values;
  getUsedValuesDefinedAbove(op->getRegions(), values);
  return SmallVector<Value>(values.getArrayRef());
}

FailureOr<SmallVector<Value>>
kerf::buildLocalOp(Operation *op, OpBuilder &builder, ValueRange operands,
                   TypeRange resultTypes, LocalContext &context) {
  if (auto interface = dyn_cast<ShardingRuleInterface>(op))
    return interface.buildLocal(builder, operands, resultTypes, context);
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  return SmallVector<Value>(builder.clone(*op, mapping)->getResults());
}
