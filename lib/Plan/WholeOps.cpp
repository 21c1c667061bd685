//===- WholeOps.cpp - ops that nothing says how to cut --------------------===//
#include "WholeOps.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/AnyOp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/CallInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

bool kerf::plan::lacksRule(Operation *op) {
  // A call has a rule for what its callee lets be cut, which may be nothing.
  bool hasRule =
      isa<ShardingRuleInterface>(op) &&
      !(isa<CallOpInterface>(op) && shardingRuleOf(op).factors.empty());
  if (hasRule || isa<SourceOpInterface>(op) ||
      isa_and_nonnull<dist::DistDialect>(op->getDialect()))
    return false;
  auto isLarge = [](Value value) {
    return plannedType(value).getNumElements() > 1;
  };
  return llvm::any_of(op->getOperands(), isLarge) ||
         llvm::any_of(op->getResults(), isLarge);
}

/// The op that kerf-flatten has made a function of its own of; null: `op` is no
/// call of such a function.
static Operation *flattened(Operation *op) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call || !call.getNoInline())
    return nullptr;
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee || callee.isExternal())
    return nullptr;
  Block &body = callee.getBody().front();
  bool isOne = body.getOperations().size() == 2 &&
               body.getTerminator()->getOperands() == body.front().getResults();
  return isOne ? &body.front() : nullptr;
}

void kerf::plan::remarkWhole(Operation *op, Location loc, int64_t bytes) {
  Operation *inside = flattened(op);
  InFlightDiagnostic remark =
      emitRemark(loc) << "'" << (inside ? inside : op)->getName() << "' ";
  if (!inside)
    remark << "has no sharding rule";
  else if (isa<ShardingRuleInterface>(inside))
    remark << "uses tensors from outside in its region, which no rule sees";
  else
    remark << "has nothing that can be cut in the same way throughout";
  remark << ": every device computes all of it, and bringing them its operands "
            "sends "
         << bytes << " bytes in a step";
}
