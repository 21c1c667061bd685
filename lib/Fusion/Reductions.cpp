//===- Reductions.cpp - long sums that become two; see Reductions.h -------===//
#include "kerf/Fusion/Reductions.h"

#include "kerf/Interfaces/AnyOp.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kerf;

bool kerf::foldsLeadingDims(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  auto ruled = dyn_cast<ShardingRuleInterface>(op);
  if (!costed || !ruled || costed.getCostClass() != CostClass::Row ||
      op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  RankedTensorType from = plannedType(op->getOperand(0));
  RankedTensorType to = plannedType(op->getResult(0));
  int64_t folded = from.getRank() - to.getRank();
  if (folded <= 0 || from.getElementType() != to.getElementType() ||
      !isa<FloatType>(from.getElementType()))
    return false;
  ShardingRule rule = ruled.getShardingRule();
  return llvm::all_of(llvm::enumerate(rule.operands.front()), [&](auto dim) {
    return llvm::all_of(dim.value(), [&](unsigned factor) {
      bool isFolded = static_cast<int64_t>(dim.index()) < folded;
      return (rule.factors[factor].kind == FactorKind::Reduction) == isFolded;
    });
  });
}

static int64_t numPartsForBlocks(int64_t count, int64_t columns) {
  // On a GPU blocks of 32 columns are shared by the threads of one
  // multiprocessor: as many parts as keep all of them busy, if each has
  // something to add up.
  constexpr int64_t wanted = 264 * 32, min = 1 << 16, shortest = 32;
  if (columns >= wanted || count * columns < min)
    return 1;
  int64_t target =
      std::min<int64_t>(llvm::divideCeil(wanted, columns), count / shortest);
  // A single column is a row of parts, each of which fills a block.
  if (columns == 1)
    target = std::min<int64_t>(target, 1024);
  for (int64_t parts = target; parts <= 4 * target && parts * 8 <= count;
       ++parts)
    if (parts > 1 && count % parts == 0)
      return parts;
  for (int64_t parts = target; parts >= 8; --parts)
    if (count % parts == 0)
      return parts;
  return 1;
}

static int64_t numPartsForTasks(int64_t count, int64_t columns) {
  constexpr int64_t columnsOfATask = 64, tasks = 8, min = 1 << 17;
  if (columns >= tasks * columnsOfATask || count * columns < min)
    return 1;
  for (int64_t parts = 64; parts >= tasks; --parts)
    if (count % parts == 0)
      return parts;
  return 1;
}

int64_t kerf::numPartsOfSum(int64_t count, int64_t columns, bool byBlock) {
  return byBlock ? numPartsForBlocks(count, columns)
                 : numPartsForTasks(count, columns);
}
