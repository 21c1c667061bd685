//===- ShardingRules.cpp - how each nn op may be cut ----------------------===//
//
// The factor mapping of every op that is not elementwise (those have theirs in
// NNBase.td). A dimension without factors is never cut: windows of a
// convolution (they would need halos), the normalized dimensions of softmax and
// norms.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

/// A factor for a dimension of this size; none for size 1, which broadcasts.
static DimFactors factorFor(ShardingRule &rule, int64_t size,
                            FactorKind kind = FactorKind::Parallel,
                            ReductionKind reduction = ReductionKind::Sum) {
  if (size == 1)
    return {};
  return {rule.addFactor(size, kind, reduction)};
}

LinearGroups kerf::nn::quotientLinearGroups(Type element) {
  if (isa<FloatType>(element))
    return {{0}};
  return {};
}

/// One parallel factor for each dimension of the result that `sharded` allows;
/// the same for operand 0, which has the result's shape.
static ShardingRule pointwiseRule(Operation *op,
                                  llvm::function_ref<bool(int64_t)> sharded) {
  ShardingRule rule = replicatedShardingRule(op);
  for (auto [dim, size] : llvm::enumerate(shapeOf(op->getResult(0))))
    if (sharded(dim))
      rule.operands[0][dim] = rule.results[0][dim] = factorFor(rule, size);
  return rule;
}

/// Sources can be stored in any sharding.
static ShardingRule sourceRule(Operation *op) {
  ShardingRule rule = replicatedShardingRule(op);
  for (auto [dim, size] : llvm::enumerate(shapeOf(op->getResult(0))))
    rule.results[0][dim] = factorFor(rule, size);
  return rule;
}

ShardingRule WeightOp::getShardingRule() { return sourceRule(getOperation()); }
ShardingRule StateOp::getShardingRule() { return sourceRule(getOperation()); }
ShardingRule ConstantOp::getShardingRule() {
  return sourceRule(getOperation());
}
ShardingRule IotaOp::getShardingRule() { return sourceRule(getOperation()); }

ShardingRule ReshapeOp::getShardingRule() {
  return reshapeShardingRule(shapeOf(getX()), shapeOf(getResult()));
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  for (auto [to, from] : llvm::enumerate(getPerm()))
    rule.results[0][to] = rule.operands[0][from] =
        factorFor(rule, shapeOf(getX())[from]);
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = elementwiseShardingRule(getOperation());
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  for (auto [dim, size] : llvm::enumerate(shapeOf(getResult()))) {
    if (dim == getDim())
      continue;
    rule.results[0][dim] = factorFor(rule, size);
    for (TensorFactors &operand : rule.operands)
      operand[dim] = rule.results[0][dim];
  }
  rule.linearGroups.emplace_back();
  for (unsigned operand = 0; operand < getNumOperands(); ++operand)
    rule.linearGroups[0].push_back(operand);
  return rule;
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  for (auto [dim, size] : llvm::enumerate(shapeOf(getX())))
    if (getStarts()[dim] == 0 && getSizes()[dim] == size &&
        getStrides()[dim] == 1)
      rule.results[0][dim] = rule.operands[0][dim] = factorFor(rule, size);
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  for (auto [dim, size] : llvm::enumerate(shapeOf(getX())))
    if (getLow()[dim] == 0 && getHigh()[dim] == 0)
      rule.results[0][dim] = rule.operands[0][dim] = factorFor(rule, size);
  // A border of zeros adds up to zeros.
  if (mlir::matchPattern(getValue(), mlir::m_AnyZeroFloat()) ||
      mlir::matchPattern(getValue(), mlir::m_Zero()))
    rule.linearGroups = {{0}};
  return rule;
}

ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  auto dim = static_cast<size_t>(getDim());
  size_t shared = getBatched() ? dim : 0;
  size_t numIndexDims = shapeOf(getIndices()).size() - shared;
  for (auto [d, size] : llvm::enumerate(shapeOf(getData()))) {
    // A sharded `dim` leaves partial sums, for types that can be summed.
    if (d == dim) {
      if (isComputedFloat(getData().getType().getElementType())) {
        rule.operands[0][d] = factorFor(rule, size, FactorKind::Reduction);
        for (unsigned factor : rule.operands[0][d])
          rule.factors[factor].masksItself = true;
      }
      continue;
    }
    DimFactors factors = factorFor(rule, size);
    rule.operands[0][d] = factors;
    rule.results[0][d < dim ? d : d - 1 + numIndexDims] = factors;
    if (d < shared)
      rule.operands[1][d] = factors;
  }
  for (size_t d = shared; d < shared + numIndexDims; ++d)
    rule.operands[1][d] = rule.results[0][dim + d - shared] =
        factorFor(rule, shapeOf(getIndices())[d]);
  rule.paddingFills = {{1, 0}};
  rule.linearGroups = {{0}};
  return rule;
}

// Each device changes the rows that it holds. Updates are never cut: of those
// to one place the last one stays, and sums have an order.
ShardingRule ScatterOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  auto dim = static_cast<size_t>(getDim());
  size_t numUpdateDims = shapeOf(getIndices()).size() - dim;
  for (auto [d, size] : llvm::enumerate(shapeOf(getData()))) {
    DimFactors factors = factorFor(rule, size);
    rule.operands[0][d] = rule.results[0][d] = factors;
    if (d < dim)
      rule.operands[1][d] = factors;
    if (d != dim)
      rule.operands[2][d < dim ? d : d - 1 + numUpdateDims] = factors;
  }
  if (getKind() == ScatterKind::Set || getKind() == ScatterKind::Add)
    rule.linearGroups = {{0, 2}};
  return rule;
}

ShardingRule MatmulOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  TensorFactors &lhs = rule.operands[0], &rhs = rule.operands[1];
  TensorFactors &result = rule.results[0];
  size_t rank = result.size();
  for (size_t d = 0; d + 2 < rank; ++d) {
    DimFactors factors = factorFor(rule, shapeOf(getResult())[d]);
    result[d] = factors;
    for (auto [side, value] :
         {std::pair<TensorFactors *, Value>{&lhs, getLhs()},
          {&rhs, getRhs()}}) {
      ArrayRef<int64_t> shape = shapeOf(value);
      size_t skip = rank - shape.size();
      if (d >= skip && shape[d - skip] != 1)
        (*side)[d - skip] = factors;
    }
  }
  size_t mDim = lhs.size() - (getTransposeLhs() ? 1 : 2);
  size_t klDim = lhs.size() - (getTransposeLhs() ? 2 : 1);
  size_t nDim = rhs.size() - (getTransposeRhs() ? 2 : 1);
  size_t krDim = rhs.size() - (getTransposeRhs() ? 1 : 2);
  lhs[mDim] = result[rank - 2] = factorFor(rule, shapeOf(getLhs())[mDim]);
  rhs[nDim] = result[rank - 1] = factorFor(rule, shapeOf(getRhs())[nDim]);
  lhs[klDim] = rhs[krDim] =
      factorFor(rule, shapeOf(getLhs())[klDim], FactorKind::Reduction);
  rule.linearGroups = {{0}, {1}};
  rule.multipliers = {0, 1};
  return rule;
}

ShardingRule ConvOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  TensorFactors &x = rule.operands[0], &w = rule.operands[1];
  TensorFactors &result = rule.results[0];
  x.front() = result.front() = factorFor(rule, shapeOf(getX()).front());
  if (getGroups() == 1) {
    w[0] = result.back() = factorFor(rule, shapeOf(getWeights())[0]);
    x.back() = w[1] =
        factorFor(rule, shapeOf(getWeights())[1], FactorKind::Reduction);
  }
  rule.linearGroups = {{0}, {1}};
  rule.multipliers = {0, 1};
  return rule;
}

/// Batch and channels are cut, windows stay whole.
static ShardingRule poolRule(Operation *op) {
  auto rank = static_cast<int64_t>(shapeOf(op->getResult(0)).size());
  return pointwiseRule(
      op, [&](int64_t dim) { return dim == 0 || dim == rank - 1; });
}

ShardingRule MaxPoolOp::getShardingRule() { return poolRule(getOperation()); }
ShardingRule AvgPoolOp::getShardingRule() {
  ShardingRule rule = poolRule(getOperation());
  rule.linearGroups = {{0}};
  return rule;
}

ReductionKind nn::toReduction(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return ReductionKind::Sum;
  case ReduceKind::Max:
    return ReductionKind::Max;
  case ReduceKind::Min:
    return ReductionKind::Min;
  case ReduceKind::Prod:
    return ReductionKind::Prod;
  }
  llvm_unreachable("bad ReduceKind");
}

ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  size_t next = 0;
  for (auto [dim, size] : llvm::enumerate(shapeOf(getX()))) {
    bool reduced = llvm::is_contained(getDims(), static_cast<int64_t>(dim));
    rule.operands[0][dim] = reduced
                                ? factorFor(rule, size, FactorKind::Reduction,
                                            toReduction(getKind()))
                                : factorFor(rule, size);
    if (!reduced)
      rule.results[0][next++] = rule.operands[0][dim];
  }
  if (getKind() == ReduceKind::Sum)
    rule.linearGroups = {{0}};
  return rule;
}

ShardingRule ArgReduceOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  size_t next = 0;
  for (auto [dim, size] : llvm::enumerate(shapeOf(getX())))
    if (dim != getDim())
      rule.operands[0][dim] = rule.results[0][next++] = factorFor(rule, size);
  return rule;
}

ShardingRule TopKOp::getShardingRule() {
  auto last = static_cast<int64_t>(shapeOf(getX()).size()) - 1;
  return pointwiseRule(getOperation(), [&](int64_t d) { return d != last; });
}

static ShardingRule softmaxRule(Operation *op, uint64_t dim) {
  return pointwiseRule(op, [&](int64_t d) { return d != int64_t(dim); });
}

ShardingRule SoftmaxOp::getShardingRule() {
  return softmaxRule(getOperation(), getDim());
}
ShardingRule LogSoftmaxOp::getShardingRule() {
  return softmaxRule(getOperation(), getDim());
}

ShardingRule nn::normRule(Operation *op, uint64_t dim) {
  return pointwiseRule(op, [&](int64_t d) { return d < int64_t(dim); });
}

ShardingRule BatchNormOp::getShardingRule() {
  ShardingRule rule =
      pointwiseRule(getOperation(), [](int64_t) { return true; });
  for (TensorFactors &vector : llvm::drop_begin(rule.operands))
    vector[0] = rule.results[0].back();
  return rule;
}

ShardingRule LRNOp::getShardingRule() {
  auto rank = static_cast<int64_t>(shapeOf(getX()).size());
  return pointwiseRule(getOperation(), [&](int64_t d) { return d < rank - 1; });
}

ShardingRule ConvInputGradientOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  TensorFactors &dy = rule.operands[0], &w = rule.operands[1];
  TensorFactors &result = rule.results[0];
  dy.front() = result.front() = factorFor(rule, shapeOf(getDy()).front());
  if (getGroups() == 1) {
    dy.back() = w[0] =
        factorFor(rule, shapeOf(getWeights())[0], FactorKind::Reduction);
    w[1] = result.back() = factorFor(rule, shapeOf(getWeights())[1]);
  }
  rule.linearGroups = {{0}, {1}};
  rule.multipliers = {0, 1};
  return rule;
}

ShardingRule ConvWeightGradientOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  TensorFactors &x = rule.operands[0], &dy = rule.operands[1];
  TensorFactors &result = rule.results[0];
  x.front() = dy.front() =
      factorFor(rule, shapeOf(getX()).front(), FactorKind::Reduction);
  if (getGroups() == 1) {
    dy.back() = result[0] = factorFor(rule, shapeOf(getResult())[0]);
    x.back() = result[1] = factorFor(rule, shapeOf(getResult())[1]);
  }
  rule.linearGroups = {{0}, {1}};
  rule.multipliers = {0, 1};
  return rule;
}

ShardingRule MaxPoolGradientOp::getShardingRule() {
  ShardingRule rule = poolRule(getOperation());
  rule.operands[1] = rule.results[0];
  rule.linearGroups = {{1}};
  return rule;
}

ShardingRule AvgPoolGradientOp::getShardingRule() {
  ShardingRule rule = poolRule(getOperation());
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule = replicatedShardingRule(getOperation());
  auto dim = static_cast<size_t>(getDim());
  size_t numIndexDims = shapeOf(getIndices()).size();
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult()))) {
    rule.results[0][d] = factorFor(rule, size);
    if (d != dim)
      rule.operands[1][d < dim ? d : d - 1 + numIndexDims] = rule.results[0][d];
  }
  for (auto [d, size] : llvm::enumerate(shapeOf(getIndices())))
    rule.operands[0][d] = rule.operands[1][dim + d] =
        factorFor(rule, size, FactorKind::Reduction);
  rule.linearGroups = {{1}};
  return rule;
}
