//===- BatchAnalysis.cpp - following the batch through factors ------------===//
#include "kerf/Plan/BatchAnalysis.h"

#include "kerf/Interfaces/ShardingRule.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

BatchAnalysis::BatchAnalysis(func::FuncOp function,
                             const llvm::StringMap<int64_t> &batchDims) {
  std::optional<int64_t> common;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || type.getRank() == 0)
      continue;
    auto name =
        function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "kerf.name");
    auto given = name ? batchDims.find(name.getValue()) : batchDims.end();
    int64_t dim = given == batchDims.end() ? 0 : given->second;
    if (dim < 0 || dim >= type.getRank())
      continue;
    if (!common)
      common = type.getDimSize(dim);
    if (type.getDimSize(dim) != *common)
      continue;
    dims[argument] = dim;
  }
  size = common.value_or(1);
  if (size == 1)
    dims.clear(); // one sample cannot be cut
  for (Operation &op : function.getBody().front())
    visit(&op);
}

void BatchAnalysis::visit(Operation *op) {
  auto sharded = dyn_cast<ShardingRuleInterface>(op);
  if (!sharded)
    return;
  ShardingRule rule = sharded.getShardingRule();
  std::optional<unsigned> factor;
  bool marked = false, agrees = true;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    auto dim = dims.find(operand);
    if (dim == dims.end())
      continue;
    marked = true;
    const DimFactors &list = rule.operands[index][dim->second];
    if (list.empty() || (factor && *factor != list.front()))
      agrees = false;
    else
      factor = list.front();
  }
  if (!marked)
    return;
  if (!agrees || rule.factors[*factor].kind != FactorKind::Parallel) {
    broken.push_back(op);
    return;
  }
  // Where the batch ends up inside of another factor it cannot be cut in
  // contiguous parts.
  for (const TensorFactors &tensor : rule.results)
    for (const DimFactors &list : tensor)
      if (llvm::is_contained(list, *factor) && list.front() != *factor) {
        broken.push_back(op);
        return;
      }
  factors[op] = *factor;
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    for (auto [dim, list] : llvm::enumerate(rule.results[index]))
      if (!list.empty() && list.front() == *factor)
        dims[result] = static_cast<int64_t>(dim);
}

std::optional<int64_t> BatchAnalysis::batchDim(Value value) const {
  auto found = dims.find(value);
  return found == dims.end() ? std::nullopt : std::optional(found->second);
}

std::optional<unsigned> BatchAnalysis::batchFactor(Operation *op) const {
  auto found = factors.find(op);
  return found == factors.end() ? std::nullopt : std::optional(found->second);
}
