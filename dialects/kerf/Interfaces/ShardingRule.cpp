//===- ShardingRule.cpp - common rules and their invariants ---------------===//
//
// Rules that many ops share, and the check that a rule is well formed. A
// reshape's factors are found by walking both shapes together: the coarsest
// split in which every dimension of either side is a run of whole factors.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interfaces/ShardingRule.h"

#include "kerf/Interfaces/AnyOp.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace kerf;

#include "kerf/Interfaces/Interfaces.cpp.inc"
#include "kerf/Support/TensorTypes.h"

llvm::StringRef kerf::stringifyReductionKind(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum:
    return "sum";
  case ReductionKind::Max:
    return "max";
  case ReductionKind::Min:
    return "min";
  case ReductionKind::Prod:
    return "prod";
  }
  llvm_unreachable("bad ReductionKind");
}

std::optional<ReductionKind> kerf::symbolizeReductionKind(StringRef name) {
  for (ReductionKind kind : {ReductionKind::Sum, ReductionKind::Max,
                             ReductionKind::Min, ReductionKind::Prod})
    if (name == stringifyReductionKind(kind))
      return kind;
  return std::nullopt;
}

int64_t kerf::defaultBytesTouched(CostClass costClass,
                                  ArrayRef<RankedTensorType> operands,
                                  ArrayRef<RankedTensorType> results) {
  if (costClass == CostClass::View)
    return 0;
  if (costClass == CostClass::Gather)
    operands = results;
  int64_t bytes = 0;
  for (ArrayRef<RankedTensorType> types : {operands, results})
    for (RankedTensorType type : types)
      bytes +=
          type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
  return bytes;
}

LibraryWork kerf::libraryWorkOn(Type type, LibraryWork work) {
  Type element = getElementTypeOrSelf(type);
  return element.isF32() || element.isF16() || element.isBF16()
             ? work
             : LibraryWork::None;
}

ShardingRule kerf::elementwiseShardingRule(Operation *op) {
  ShardingRule rule;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  TensorFactors all;
  for (int64_t size : shape)
    all.push_back(size == 1 ? DimFactors{} : DimFactors{rule.addFactor(size)});
  rule.results.assign(op->getNumResults(), all);
  for (Value operand : op->getOperands()) {
    ArrayRef<int64_t> from = shapeOf(operand);
    TensorFactors factors(from.size());
    size_t skip = shape.size() - from.size();
    for (size_t dim = 0; dim < from.size(); ++dim)
      if (from[dim] != 1)
        factors[dim] = all[skip + dim];
    rule.operands.push_back(std::move(factors));
  }
  return rule;
}

ShardingRule kerf::replicatedShardingRule(Operation *op) {
  ShardingRule rule;
  for (Value operand : op->getOperands())
    rule.operands.emplace_back(plannedType(operand).getRank());
  for (Value result : op->getResults())
    rule.results.emplace_back(plannedType(result).getRank());
  return rule;
}

/// Adds the factors of the leading dimensions of both shapes that hold the same
/// elements, of the first `dimsFrom` and `dimsTo` at most.
static void addLeadingFactors(ShardingRule &rule, ArrayRef<int64_t> from,
                              ArrayRef<int64_t> to, size_t dimsFrom,
                              size_t dimsTo) {
  size_t i = 0, j = 0, leadingFrom = 0, leadingTo = 0;
  int64_t sizeFrom = 1, sizeTo = 1;
  while (true) {
    if (sizeFrom == sizeTo) {
      leadingFrom = i;
      leadingTo = j;
    }
    if (sizeFrom <= sizeTo && i < dimsFrom)
      sizeFrom *= from[i++];
    else if (sizeTo <= sizeFrom && j < dimsTo)
      sizeTo *= to[j++];
    else
      break;
  }
  ShardingRule leading = reshapeShardingRule(from.take_front(leadingFrom),
                                             to.take_front(leadingTo));
  auto offset = static_cast<unsigned>(rule.factors.size());
  auto add = [&](TensorFactors &all, const TensorFactors &own) {
    for (auto [dim, factors] : llvm::enumerate(own))
      for (unsigned factor : factors)
        all[dim].push_back(offset + factor);
  };
  add(rule.operands[0], leading.operands[0]);
  add(rule.results[0], leading.results[0]);
  llvm::append_range(rule.factors, leading.factors);
}

ShardingRule kerf::reshapeShardingRule(ArrayRef<int64_t> from,
                                       ArrayRef<int64_t> to) {
  ShardingRule rule;
  rule.operands.emplace_back(from.size());
  rule.results.emplace_back(to.size());
  rule.linearGroups.push_back({0});
  TensorFactors &in = rule.operands[0], &out = rule.results[0];
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return rule;
  // Walk from the minor end; `restFrom` and `restTo` are the unmatched rests of
  // the current dimensions. A common divisor that is neither rest ends the
  // walk: the dimensions straddle each other and stay whole. In front of them
  // there may be dimensions that hold the same elements again (a batch).
  auto i = static_cast<int64_t>(from.size()) - 1;
  auto j = static_cast<int64_t>(to.size()) - 1;
  int64_t restFrom = i >= 0 ? from[i] : 1, restTo = j >= 0 ? to[j] : 1;
  auto skipOnes = [&] {
    while (i >= 0 && restFrom == 1)
      restFrom = --i >= 0 ? from[i] : 1;
    while (j >= 0 && restTo == 1)
      restTo = --j >= 0 ? to[j] : 1;
  };
  for (skipOnes(); i >= 0 && j >= 0; skipOnes()) {
    int64_t size = std::min(restFrom, restTo);
    if (std::max(restFrom, restTo) % size != 0) {
      // Both dimensions stay whole, and all that share a factor with either.
      for (const DimFactors &factors : {in[i], out[j]})
        for (unsigned factor : factors)
          rule.factors[factor].kind = FactorKind::Replicated;
      addLeadingFactors(rule, from, to, static_cast<size_t>(i),
                        static_cast<size_t>(j));
      break;
    }
    unsigned factor = rule.addFactor(size);
    in[i].insert(in[i].begin(), factor);
    out[j].insert(out[j].begin(), factor);
    restFrom /= size;
    restTo /= size;
  }
  // Dimensions that the walk split only in part stay whole, and so do those
  // that they share factors with.
  auto prune = [&](TensorFactors &side, ArrayRef<int64_t> shape) {
    bool changed = false;
    for (auto [dim, factors] : llvm::enumerate(side)) {
      int64_t product = 1;
      for (unsigned factor : factors)
        product *= rule.factors[factor].size;
      if (factors.empty() || product == shape[dim])
        continue;
      for (unsigned factor : factors)
        rule.factors[factor].kind = FactorKind::Replicated;
      factors.clear();
      changed = true;
    }
    return changed;
  };
  auto dropReplicated = [&](TensorFactors &side) {
    for (DimFactors &factors : side)
      if (llvm::any_of(factors, [&](unsigned f) {
            return rule.factors[f].kind == FactorKind::Replicated;
          })) {
        for (unsigned factor : factors)
          rule.factors[factor].kind = FactorKind::Replicated;
        factors.clear();
      }
  };
  prune(in, from);
  prune(out, to);
  for (size_t round = 0; round < from.size() + to.size(); ++round) {
    dropReplicated(in);
    dropReplicated(out);
  }
  return rule;
}

LogicalResult kerf::verifyShardingRule(Operation *op,
                                       const ShardingRule &rule) {
  auto check = [&](ArrayRef<TensorFactors> sides, ValueRange values,
                   StringRef what) -> LogicalResult {
    if (sides.size() != values.size())
      return op->emitOpError("sharding rule has ")
             << sides.size() << " " << what << "s, expected " << values.size();
    for (auto [index, value] : llvm::enumerate(values)) {
      ArrayRef<int64_t> shape = plannedType(value).getShape();
      if (sides[index].size() != shape.size())
        return op->emitOpError("sharding rule of ")
               << what << " " << index << " has rank " << sides[index].size()
               << ", expected " << shape.size();
      for (auto [dim, factors] : llvm::enumerate(sides[index])) {
        int64_t product = 1;
        for (unsigned factor : factors) {
          if (factor >= rule.factors.size())
            return op->emitOpError("sharding rule of ")
                   << what << " " << index << " names factor " << factor
                   << ", expected less than " << rule.factors.size();
          product *= rule.factors[factor].size;
        }
        if (!factors.empty() && product != shape[dim])
          return op->emitOpError("sharding rule of ")
                 << what << " " << index << ": factors of dimension " << dim
                 << " multiply to " << product << ", expected " << shape[dim];
      }
    }
    return success();
  };
  if (failed(check(rule.operands, op->getOperands(), "operand")) ||
      failed(check(rule.results, op->getResults(), "result")))
    return failure();
  for (unsigned id = 0; id < rule.factors.size(); ++id)
    for (auto [result, tensor] :
         llvm::zip_equal(op->getResults(), rule.results)) {
      const Factor &factor = rule.factors[id];
      if (!canBeCut(result.getType())) // a number, the same on every device
        continue;
      bool found = llvm::any_of(tensor, [&](const DimFactors &dims) {
        return llvm::is_contained(dims, id);
      });
      if (factor.kind == FactorKind::Reduction && found)
        return op->emitOpError("reduction factor ") << id << " in a result";
      // Of a loop, what does not depend on the factor is the same everywhere:
      // the number of iterations.
      bool isLoop = op->hasTrait<OpTrait::IsIsolatedFromAbove>();
      if (factor.kind == FactorKind::Parallel && !isLoop && !found)
        return op->emitOpError("parallel factor ") << id << " in no result";
    }
  // What is no tensor cannot be a partial sum.
  bool leavesParts = llvm::any_of(rule.factors, [](const Factor &factor) {
    return factor.kind == FactorKind::Reduction;
  });
  auto checkWhole = [&](Value value, const Twine &what) -> LogicalResult {
    if (canBeCut(value.getType()))
      return success();
    return op->emitOpError("sharding rule makes ")
           << what << " a part of a sum, but it is " << value.getType();
  };
  if (leavesParts || !rule.linearGroups.empty())
    for (OpResult result : op->getResults())
      if (failed(
              checkWhole(result, "result " + Twine(result.getResultNumber()))))
        return failure();
  for (const SmallVector<unsigned> &group : rule.linearGroups)
    for (unsigned operand : group) {
      if (operand >= op->getNumOperands())
        return op->emitOpError("sharding rule is linear in operand ")
               << operand << ", expected less than " << op->getNumOperands();
      if (failed(
              checkWhole(op->getOperand(operand), "operand " + Twine(operand))))
        return failure();
    }
  auto checkOperand = [&](unsigned operand, StringRef what) -> LogicalResult {
    if (operand < op->getNumOperands())
      return success();
    return op->emitOpError("sharding rule has operand ")
           << operand << " as " << what << ", expected less than "
           << op->getNumOperands();
  };
  for (unsigned operand : rule.multipliers)
    if (failed(checkOperand(operand, "a multiplier")))
      return failure();
  for (unsigned operand : rule.divisors)
    if (failed(checkOperand(operand, "a divisor")))
      return failure();
  for (const ShardingRule::PaddingFill &fill : rule.paddingFills)
    if (failed(checkOperand(fill.operand, "one whose padding is filled")))
      return failure();
  return success();
}
