//===- PlanArenas.cpp - offsets of buffers and slots ----------------------===//
//
// Problem: buffers of a function and slots of a stage share static memory.
//
// Idea: take the steps of the list as time, a buffer's life from its first to
// its last use (Lives.h), and solve (Arena.h). A stage's arena has the
// functions' scratch memory first, slots behind it.
//
// Invariant: what kerf-verify-after-lower checks: buffers that are live
// together do not overlap.
//
//===----------------------------------------------------------------------===//
#include "Lives.h"

#include "kerf/Lower/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_PLANARENAS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static LogicalResult planFunction(exec::FuncOp function, SymbolTable &symbols,
                                  DenseSet<Operation *> &planned);

/// A loop has the scratch memory of its body as one of its buffers.
static LogicalResult addBodyMemory(exec::LoopOp loop, SymbolTable &symbols,
                                   DenseSet<Operation *> &planned) {
  auto body = symbols.lookup<exec::FuncOp>(loop.getBody());
  if (failed(planFunction(body, symbols, planned)))
    return failure();
  if (!body.getScratch()) // it is being planned
    return loop.emitOpError("is in its own body");
  int64_t bytes = *body.getScratch();
  // The iteration, and what the body writes.
  size_t others = 1 + body.getArgumentTypes().size() - body.getNumInputs();
  if (loop.getTemporaries().size() > others)
    loop.getTemporariesMutable().erase(others);
  if (!bytes)
    return success();
  OpBuilder builder(loop);
  loop.getTemporariesMutable().append(
      exec::ArenaOp::create(builder, loop.getLoc(),
                            MemRefType::get({bytes}, builder.getI8Type()),
                            IntegerAttr())
          .getResult());
  return success();
}

/// Functions that loops run are planned before those that have the loops.
static LogicalResult planFunction(exec::FuncOp function, SymbolTable &symbols,
                                  DenseSet<Operation *> &planned) {
  if (!planned.insert(function).second)
    return success();
  function.removeScratchAttr();
  for (auto loop :
       llvm::make_early_inc_range(function.getBody().getOps<exec::LoopOp>()))
    if (failed(addBodyMemory(loop, symbols, planned)))
      return failure();
  Lives lives(function);
  SmallVector<ArenaBuffer> buffers;
  SmallVector<exec::ArenaOp> ops;
  for (auto &[value, buffer] : lives.buffers) {
    if (buffer.begin < 0) { // no op uses it
      value.getDefiningOp()->erase();
      continue;
    }
    ops.push_back(value.getDefiningOp<exec::ArenaOp>());
    buffers.push_back(buffer);
  }
  auto plan = planArena(buffers, exec::bufferAlignment);
  if (!plan)
    return function.emitError("buffers need more than 2^63 bytes");
  for (auto [op, offset] : llvm::zip(ops, plan->offsets))
    op.setOffset(offset);
  function.setScratch(plan->totalBytes);
  return success();
}

static LogicalResult planStage(exec::StageOp stage, SymbolTable &symbols) {
  llvm::MapVector<Value, ArenaBuffer> slots;
  for (auto slot : stage.getBody().getOps<exec::SlotOp>())
    slots[slot.getResult()] = {-1, -1,
                               exec::sizeBytes(slot.getResult().getType())};
  int64_t scratch = 0, step = 0;
  for (Operation &instruction : stage.getBody().front()) {
    if (isa<exec::SlotOp>(instruction))
      continue;
    for (Value used : instruction.getOperands()) {
      ArenaBuffer &buffer = slots[used];
      if (buffer.begin < 0)
        buffer.begin = step;
      buffer.end = std::max(buffer.end, step);
    }
    // A sent slot lives until the sender knows that its receiver has it.
    if (auto send = dyn_cast<exec::SendOp>(instruction))
      if (auto until = send.getHeldUntil())
        slots[send.getSlot()].end =
            std::max(slots[send.getSlot()].end, static_cast<int64_t>(*until));
    if (auto run = dyn_cast<exec::RunOp>(instruction)) {
      auto function = symbols.lookup<exec::FuncOp>(run.getCallee());
      if (!function || !function.getScratch())
        return run.emitError("runs ")
               << run.getCalleeAttr() << ", which is not planned";
      scratch = std::max<int64_t>(scratch, *function.getScratch());
    }
    ++step;
  }
  SmallVector<ArenaBuffer> buffers;
  for (auto &[slot, buffer] : slots) {
    if (buffer.begin < 0)
      buffer.begin = buffer.end = 0;
    buffers.push_back(buffer);
  }
  auto plan = planArena(buffers, exec::bufferAlignment);
  if (!plan)
    return stage.emitError("slots need more than 2^63 bytes");
  for (auto [slot, offset] : llvm::zip(slots, plan->offsets))
    slot.first.getDefiningOp<exec::SlotOp>().setOffset(scratch + offset);
  stage.setArena(scratch + plan->totalBytes);
  stage.setLowerBound(scratch + plan->lowerBoundBytes);
  return success();
}

namespace {
struct PlanArenas : kerf::impl::PlanArenasBase<PlanArenas> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    DenseSet<Operation *> planned;
    for (auto function : getOperation().getOps<exec::FuncOp>())
      if (failed(planFunction(function, symbols, planned)))
        return signalPassFailure();
    for (auto stage : getOperation().getOps<exec::StageOp>())
      if (failed(planStage(stage, symbols)))
        return signalPassFailure();
  }
};
} // namespace
