//===- JoinedRows.cpp - puts the batch in front of contracted rows --------===//
//
// Problem: the gradient of a weight sums over rows and batch, joined to one
// dimension. Where a model has its sequence in front of its batch, as in
// PyTorch's attention even with batch_first, the batch is the inner part of the
// joined dimension. No cut into contiguous parts divides it: micro-batches are
// impossible, and devices with samples of their own would have to exchange
// activations.
//
// Idea: a sum may join its dimensions in any order. The batch is followed
// through the rules of the ops; where both operands of a product have joined it
// behind other dimensions, they are transposed first.
//
// One scan in program order.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/ShardingRule.h"

#include <utility>

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {
using BatchDims = llvm::DenseMap<Value, int64_t>;

/// Where the op's results have the batch, if they have it as a whole.
void follow(Operation &op, BatchDims &batch) {
  auto sharded = dyn_cast<ShardingRuleInterface>(op);
  if (!sharded)
    return;
  std::optional<ShardingRule> rule;
  std::optional<unsigned> factor;
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    auto dim = batch.find(operand);
    if (dim == batch.end())
      continue;
    if (!rule)
      rule = sharded.getShardingRule();
    const DimFactors &list = rule->operands[index][dim->second];
    if (list.empty() || (factor && *factor != list.front()))
      return;
    factor = list.front();
  }
  if (!factor || rule->factors[*factor].kind != FactorKind::Parallel)
    return;
  for (auto [index, result] : llvm::enumerate(op.getResults()))
    for (auto [dim, list] : llvm::enumerate(rule->results[index]))
      if (!list.empty() && list.front() == *factor)
        batch[result] = static_cast<int64_t>(dim);
}

/// [a..., batch, b..., n] as [a... batch b..., n], or null.
nn::ReshapeOp joinsBatch(Value value, const BatchDims &batch) {
  auto reshape = value.getDefiningOp<nn::ReshapeOp>();
  if (!reshape)
    return {};
  ArrayRef<int64_t> from = reshape.getX().getType().getShape(),
                    to = reshape.getType().getShape();
  auto dim = batch.find(reshape.getX());
  bool joins = to.size() == 2 && from.size() > 2 && from.back() == to.back() &&
               dim != batch.end() && dim->second > 0 &&
               dim->second + 1 < static_cast<int64_t>(from.size());
  return joins ? reshape : nn::ReshapeOp();
}
} // namespace

void Step::putBatchFirst() {
  BatchDims batch;
  for (BlockArgument argument : body().getArguments())
    if (auto dim = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                      kBatchDimAttr))
      batch[argument] = dim.getInt();
  // What is made belongs to the product alone.
  auto turned = [&](nn::ReshapeOp reshape, int64_t dim,
                    Operation *product) -> Value {
    GradientBuilder b = at(reshape.getLoc());
    SmallVector<int64_t> perm{dim};
    for (int64_t d = 0, rank = reshape.getX().getType().getRank(); d < rank;
         ++d)
      if (d != dim)
        perm.push_back(d);
    Value transposed = b.transpose(reshape.getX(), perm);
    Value joined = b.reshape(transposed, reshape.getType().getShape());
    for (Value made : {transposed, joined})
      dist::setStep(made.getDefiningOp(), dist::getStep(product));
    return joined;
  };
  OpBuilder::InsertionGuard guard(ops);
  Tag before = std::exchange(tag, Tag());
  for (Operation &op :
       llvm::make_early_inc_range(body().without_terminator())) {
    follow(op, batch);
    auto product = dyn_cast<nn::MatmulOp>(op);
    if (!product || dist::getPhase(product) == dist::Phase::Forward ||
        !product.getTransposeLhs() || product.getTransposeRhs())
      continue;
    nn::ReshapeOp lhs = joinsBatch(product.getLhs(), batch),
                  rhs = joinsBatch(product.getRhs(), batch);
    if (!lhs || !rhs ||
        lhs.getX().getType().getShape().drop_back() !=
            rhs.getX().getType().getShape().drop_back() ||
        batch[lhs.getX()] != batch[rhs.getX()])
      continue;
    int64_t dim = batch[lhs.getX()];
    ops.setInsertionPoint(product);
    product.getLhsMutable().assign(turned(lhs, dim, product));
    product.getRhsMutable().assign(turned(rhs, dim, product));
  }
  tag = before;
}
