//===- StageUnits.cpp - units of stages, and values that cross ------------===//
//
// `sentFrom` goes backwards through the units before `end`. A value is sent
// while a user lies outside of the stage: for all begins if a user is at `end`
// or behind, else only for begins behind the value's first user.
//
//===----------------------------------------------------------------------===//
#include "StageUnits.h"

#include "kerf/Interfaces/ShardingRule.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

std::vector<SmallVector<Operation *>>
kerf::plan::unitsOf(func::FuncOp function) {
  std::map<int64_t, SmallVector<Operation *>> byNumber;
  int64_t next = 0;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    std::optional<int64_t> number = dist::getColocation(&op);
    // Without numbers: program order.
    byNumber[number ? *number : next++].push_back(&op);
  }
  std::vector<SmallVector<Operation *>> units;
  for (auto &entry : byNumber)
    units.push_back(std::move(entry.second));
  return units;
}

bool kerf::plan::isWorkWaived(const PlanOptions &options) {
  int64_t asked = 1;
  for (const auto &axis : options.mesh)
    asked *= axis.second;
  return options.anyShareOfWork ||
         (!options.mesh.empty() && asked == options.devices);
}

int64_t kerf::plan::wholeFlops(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  if (!costed)
    return 0;
  auto typesOf = [](auto values) {
    SmallVector<RankedTensorType> types;
    for (Value value : values)
      types.push_back(tensorType(value));
    return types;
  };
  return costed.getFlops(typesOf(op->getOperands()), typesOf(op->getResults()));
}

std::vector<double> Crossings::sentFrom(size_t end) const {
  std::vector<double> sent(end, 0), inside(end, 0);
  double now = 0;
  for (size_t begin = end; begin-- > 0;) {
    for (const Crossing &crossing : byMaker[begin]) {
      if (crossing.last >= end) {
        now += crossing.bytes;
      } else if (crossing.first < begin) {
        now += crossing.bytes;
        inside[crossing.first] += crossing.bytes;
      }
    }
    now -= inside[begin];
    sent[begin] = now;
  }
  return sent;
}
