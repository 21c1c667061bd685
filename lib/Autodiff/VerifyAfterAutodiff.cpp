//===- VerifyAfterAutodiff.cpp - the contract of a training step ----------===//
//
// docs/Training.md, "What autodiff gives", held against @main.
//
//===----------------------------------------------------------------------===//
#include "kerf/Autodiff/Passes.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Dist/Phases.h"
#include "kerf/Format/StepScalars.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace kerf::autodiff {
#define GEN_PASS_DEF_VERIFYAFTERAUTODIFF
#include "kerf/Autodiff/Passes.h.inc"
} // namespace kerf::autodiff

using namespace mlir;
using namespace kerf;
using dist::Phase;

static StringRef nameOf(Phase phase) { return dist::stringifyPhase(phase); }

static bool isSource(Operation *op) { return isa<SourceOpInterface>(op); }

static int64_t colocationOf(Operation *op) {
  return dist::getColocation(op).value_or(-1);
}

static LogicalResult checkSources(func::FuncOp main) {
  llvm::StringMap<SmallVector<Operation *, 1>> known;
  for (Operation &op : main.getBody().getOps()) {
    auto source = dyn_cast<SourceOpInterface>(op);
    if (!source || !source.isParameter())
      continue;
    // Other parts of the same parameter differ in their attributes.
    auto isSame = [&](Operation *other) {
      return OperationEquivalence::isEquivalentTo(
          &op, other,
          OperationEquivalence::IgnoreLocations |
              OperationEquivalence::IgnoreDiscardableAttrs);
    };
    SmallVector<Operation *, 1> &others = known[source.getSourceName()];
    if (llvm::any_of(others, isSame))
      return op.emitError("source '")
             << source.getSourceName() << "' stands twice";
    others.push_back(&op);
    bool isAssigned = llvm::any_of(op.getUsers(), [](Operation *user) {
      return isa<dist::AssignOp>(user);
    });
    if (source.isMutable() && !isAssigned)
      return op.emitError("source '")
             << source.getSourceName() << "' is mutable and never assigned";
  }
  return success();
}

/// One value on its way from `def` to a use.
static LogicalResult checkFlow(Operation *def, Operation *use) {
  Phase from = dist::getPhase(def);
  bool isReturn = isa<func::ReturnOp>(use);
  Phase to = isReturn ? Phase::Update : dist::getPhase(use);
  if (dist::orderOf(from) > dist::orderOf(to))
    return use->emitError("phase ")
           << nameOf(to) << " uses a value of phase " << nameOf(from);
  bool crosses =
      from != Phase::Prologue && from != Phase::Update && to == Phase::Update;
  bool isSum = isa<dist::AccumulateOp>(def);
  if (crosses && !isSum)
    return use->emitError(isReturn ? StringRef("a result")
                                   : StringRef("phase update"))
           << " uses a value of phase " << nameOf(from)
           << " that no dist.accumulate has summed";
  if (isSum && to != Phase::Update)
    return use->emitError("phase ")
           << nameOf(to) << " uses a sum over micro-batches";
  return success();
}

/// An update belongs to the first user of its parameter.
static LogicalResult checkAssign(dist::AssignOp assign) {
  if (dist::getPhase(assign) != Phase::Update)
    return assign.emitError("dist.assign has phase ")
           << nameOf(dist::getPhase(assign)) << ", expected update";
  int64_t min = -1;
  for (Operation *user : assign.getSource().getUsers())
    if (dist::getPhase(user) == Phase::Forward &&
        (min < 0 || colocationOf(user) < min))
      min = colocationOf(user);
  if (min >= 0 && colocationOf(assign) != min)
    return assign.emitError("colocation is ")
           << colocationOf(assign) << ", expected " << min
           << ", the least of the users of what is assigned";
  return success();
}

static LogicalResult checkOps(func::FuncOp main) {
  int64_t last = -1;
  for (Operation &op : main.getBody().getOps()) {
    if (isSource(&op))
      continue;
    if (!isa<func::ReturnOp>(op)) {
      if (colocationOf(&op) < 0)
        return op.emitError("has no colocation");
      if (dist::getPhase(&op) == Phase::Forward &&
          !isa<dist::AccumulateOp>(op)) {
        if (colocationOf(&op) <= last)
          return op.emitError("colocation is ")
                 << colocationOf(&op) << " after " << last
                 << ", expected numbers that ascend in the forward";
        last = colocationOf(&op);
      }
    }
    if (auto assign = dyn_cast<dist::AssignOp>(op);
        assign && failed(checkAssign(assign)))
      return failure();
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && !isSource(def) && failed(checkFlow(def, &op)))
        return failure();
  }
  return success();
}

static LogicalResult checkResults(func::FuncOp main) {
  for (unsigned index = 0; index < main.getNumResults(); ++index)
    if (!main.getResultAttrOfType<StringAttr>(index, kNameAttr))
      return main.emitError("result ") << index << " has no kerf.name";
  StringAttr first;
  if (main.getNumResults())
    first = main.getResultAttrOfType<StringAttr>(0, kNameAttr);
  if (!first || first.getValue() != kLossOutput)
    return main.emitError("the first result is not loss");
  return success();
}

namespace {
struct VerifyAfterAutodiff
    : autodiff::impl::VerifyAfterAutodiffBase<VerifyAfterAutodiff> {
  void runOnOperation() override {
    auto main = dist::findEntry(getOperation());
    if (!main) {
      getOperation().emitError("expected a function @main");
      return signalPassFailure();
    }
    if (failed(checkResults(main)) || failed(checkSources(main)) ||
        failed(checkOps(main)))
      signalPassFailure();
  }
};
} // namespace
