//===- BodyRule.cpp - the sharding rule of an op with a body --------------===//
#include "kerf/Interfaces/BodyRule.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace kerf;

/// Calls `visit` with each dimension of an op's operands and results, and its
/// factors.
static void forEachDim(
    Operation *op, const ShardingRule &rule,
    llvm::function_ref<void(Value, unsigned, const DimFactors &)> visit) {
  auto visitSide = [&](ArrayRef<TensorFactors> side, ValueRange values) {
    for (auto [tensor, value] : llvm::zip_equal(side, values))
      for (auto [dim, factors] : llvm::enumerate(tensor))
        visit(value, dim, factors);
  };
  visitSide(rule.operands, op->getOperands());
  visitSide(rule.results, op->getResults());
}

unsigned DimClasses::rootOf(unsigned id) const {
  while (parents[id] != id)
    id = parents[id] = parents[parents[id]];
  return id;
}

unsigned DimClasses::idOf(Value value, unsigned dim) {
  auto [it, isNew] =
      firsts.try_emplace(value, static_cast<unsigned>(parents.size()));
  for (int64_t i = 0; isNew && i < plannedType(value).getRank(); ++i) {
    parents.push_back(static_cast<unsigned>(parents.size()));
    whole.push_back(false);
    divides.push_back(false);
  }
  return it->second + dim;
}

void DimClasses::unite(unsigned a, unsigned b) {
  a = rootOf(a);
  b = rootOf(b);
  unsigned root = std::min(a, b);
  parents[std::max(a, b)] = root;
  whole[root] = whole[a] || whole[b];
  divides[root] = divides[a] || divides[b];
}

void DimClasses::unite(Value a, Value b) {
  for (int64_t dim = 0; dim < plannedType(a).getRank(); ++dim)
    unite(idOf(a, dim), idOf(b, dim));
}

void DimClasses::visit(Operation *op, const ShardingRule &rule, bool needsAll) {
  SmallVector<std::optional<unsigned>> ids(rule.factors.size());
  forEachDim(op, rule,
             [&](Value value, unsigned dim, const DimFactors &factors) {
               unsigned id = idOf(value, dim);
               bool isWhole = needsAll || factors.size() != 1;
               for (unsigned number : factors) {
                 const Factor &factor = rule.factors[number];
                 isWhole |= factor.kind != FactorKind::Parallel;
                 if (ids[number])
                   unite(id, *ids[number]);
                 ids[number] = id;
                 unsigned root = rootOf(id);
                 divides[root] = divides[root] || factor.mustDivide ||
                                 !rule.paddingFills.empty();
               }
               if (isWhole)
                 whole[rootOf(id)] = true;
             });
}

void DimClasses::finish() {
  for (auto [value, first] : firsts) {
    llvm::SmallDenseSet<unsigned> seen;
    for (int64_t dim = 0; dim < plannedType(value).getRank(); ++dim)
      if (unsigned root = rootOf(first + dim); !seen.insert(root).second)
        whole[root] = true;
  }
}

std::optional<unsigned> DimClasses::find(Value value, unsigned dim) const {
  const auto *it = firsts.find(value);
  if (!isKnown || it == firsts.end())
    return std::nullopt;
  unsigned root = rootOf(it->second + dim);
  return whole[root] ? std::nullopt : std::optional(root);
}

std::optional<unsigned> BodyRule::factorOf(Value value, unsigned dim) const {
  std::optional<unsigned> root = classes.find(value, dim);
  if (!root)
    return std::nullopt;
  auto it = factors.find(*root);
  return it == factors.end() ? std::nullopt : std::optional(it->second);
}

unsigned BodyRule::addFactor(unsigned root, Value value, unsigned dim) {
  auto [it, isNew] = factors.try_emplace(root, 0);
  if (isNew) {
    it->second = rule.addFactor(plannedType(value).getDimSize(dim));
    rule.factors[it->second].mustDivide = classes.mustDivide(root);
  }
  return it->second;
}

Type BodyRule::localType(Value value, LocalContext &context) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !canBeCut(type))
    return value.getType();
  SmallVector<int64_t> shape(type.getShape());
  for (auto [dim, size] : llvm::enumerate(shape))
    if (std::optional<unsigned> factor = factorOf(value, dim))
      size = context.localSize(*factor);
  return type.clone(shape);
}

BodyContext::BodyContext(Operation *op, const ShardingRule &rule,
                         const BodyRule &body, LocalContext &outer,
                         MakeZero zero)
    : rule(rule), outer(outer), zero(zero), outerFactors(rule.factors.size()) {
  forEachDim(op, rule,
             [&](Value value, unsigned dim, const DimFactors &factors) {
               if (factors.size() == 1 && !outerFactors[factors[0]])
                 outerFactors[factors[0]] = body.factorOf(value, dim);
             });
}

int64_t BodyContext::shards(unsigned factor) const {
  return outerFactors[factor] ? outer.shards(*outerFactors[factor]) : 1;
}

int64_t BodyContext::localSize(unsigned factor) const {
  return outerFactors[factor] ? outer.localSize(*outerFactors[factor])
                              : rule.factors[factor].size;
}

Value BodyContext::shardOffset(OpBuilder &builder, unsigned factor) {
  return outerFactors[factor]
             ? outer.shardOffset(builder, *outerFactors[factor])
             : zero(builder);
}
