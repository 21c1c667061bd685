//===- CallCosts.cpp - what a call costs ----------------------------------===//
//
// A call costs what the ops of its callee do, on their own shapes, times the
// share of the result that a device makes: every factor of a call's rule
// (Calls.cpp) cuts each result, so the work of ops that it cuts falls as the
// results do. Loops of known length count each turn, others one; of a branch
// the dearer side counts. What a callee calls again costs nothing. Linear in
// the callee.
//
//===----------------------------------------------------------------------===//
#include "Attach.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

/// Operations and bytes of ops on their own shapes.
struct Work {
  int64_t flops = 0, bytes = 0;
  /// The class of the op with most operations.
  CostClass kind = CostClass::View;
  int64_t mostFlops = -1;

  void add(const Work &other, int64_t times) {
    flops = addSaturated(flops, multiplySaturated(other.flops, times));
    bytes = addSaturated(bytes, multiplySaturated(other.bytes, times));
    if (other.mostFlops > mostFlops) {
      mostFlops = other.mostFlops;
      kind = other.kind;
    }
  }
};

SmallVector<RankedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values,
                             [](Value value) { return plannedType(value); });
}

Work workOf(Block &block);

Work workOf(Operation *op) {
  Work work;
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region &region : branch->getRegions())
      if (!region.empty())
        if (Work side = workOf(region.front());
            side.mostFlops < 0 || side.flops >= work.flops)
          work = side;
    return work;
  }
  if (auto loop = dyn_cast<LoopLikeOpInterface>(op);
      loop && loop->getNumRegions() == 1 && loop->getRegion(0).hasOneBlock()) {
    std::optional<APInt> turns = loop.getStaticTripCount();
    work.add(workOf(loop->getRegion(0).front()),
             turns ? static_cast<int64_t>(turns->getLimitedValue(
                         std::numeric_limits<int64_t>::max()))
                   : 1);
    return work;
  }
  auto costed = dyn_cast<OpCostInterface>(op);
  if (!costed || isa<func::CallOp>(op))
    return work;
  auto operands = typesOf(op->getOperands());
  auto results = typesOf(op->getResults());
  work.flops = costed.getFlops(operands, results);
  work.kind = costed.getCostClass();
  work.mostFlops = work.flops;
  if (work.kind != CostClass::View)
    work.bytes = costed.getBytesTouched(operands, results);
  return work;
}

Work workOf(Block &block) {
  Work work;
  for (Operation &op : block.without_terminator())
    work.add(workOf(&op), 1);
  return work;
}

Work workOfCallee(Operation *call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, cast<func::CallOp>(call).getCalleeAttr());
  return callee && callee.getBody().hasOneBlock()
             ? workOf(callee.getBody().front())
             : Work();
}

/// `whole` times the share of the first result that is made here.
int64_t shareOf(int64_t whole, Operation *call,
                ArrayRef<RankedTensorType> results) {
  if (results.empty())
    return whole;
  int64_t all = plannedType(call->getResult(0)).getNumElements();
  int64_t here = results.front().getNumElements();
  if (all == 0 || here >= all)
    return whole;
  return static_cast<int64_t>(static_cast<double>(whole) *
                              static_cast<double>(here) /
                              static_cast<double>(all));
}

struct CallCost : OpCostInterface::ExternalModel<CallCost, func::CallOp> {
  int64_t getFlops(Operation *op, ArrayRef<RankedTensorType>,
                   ArrayRef<RankedTensorType> results) const {
    return shareOf(workOfCallee(op).flops, op, results);
  }
  int64_t getBytesTouched(Operation *op, ArrayRef<RankedTensorType>,
                          ArrayRef<RankedTensorType> results) const {
    return shareOf(workOfCallee(op).bytes, op, results);
  }
  CostClass getCostClass(Operation *op) const { return workOfCallee(op).kind; }
  LibraryWork getLibraryWork(Operation *) const { return LibraryWork::None; }
};

} // namespace

void kerf::models::attachCallCosts(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, func::FuncDialect *) {
    func::CallOp::attachInterface<CallCost>(*context);
  });
}
