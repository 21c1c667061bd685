//===- PlanArenas.cpp - in-place work and offsets -------------------------===//
//
// Problem: buffers of a function and slots of a stage share static memory.
//
// Idea: first let kernels write over an input that is not read any more (where
// code generation allows it) and all-reduces work in place. Then the numbers of
// ops are the time, and a buffer lives from its first to its last use,
// including its views; Arena.h solves the placement. A started collective holds
// its buffers until the wait. A stage's arena has the functions' scratch memory
// first, slots behind it.
//
// Invariant: what verifyLowered checks: buffers live together do not overlap.
//
//===----------------------------------------------------------------------===//
#include "kerf/Fusion/Arena.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Lower.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Fusion/Groups.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;

/// The buffer that a view is part of.
static Value baseOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<exec::ViewOp>())
    buffer = view.getSource();
  return buffer;
}

namespace {
/// Lives of arena buffers of a function, in steps.
struct Lives {
  llvm::MapVector<Value, ArenaBuffer> buffers;

  explicit Lives(exec::FuncOp function) {
    for (auto arena : function.getBody().getOps<exec::ArenaOp>())
      buffers[arena.getResult()] = {
          -1, -1, exec::sizeBytes(arena.getResult().getType())};
    int64_t step = 0;
    for (Operation &op : function.getBody().front()) {
      ++step;
      if (isa<exec::ViewOp, exec::ArenaOp, exec::ParamOp>(op))
        continue;
      for (Value operand : op.getOperands())
        if (isa<MemRefType>(operand.getType()))
          use(operand, step);
      if (auto wait = dyn_cast<exec::CollectiveWaitOp>(op))
        for (Value operand : wait.getEvent().getDefiningOp()->getOperands())
          use(operand, step);
    }
  }

private:
  void use(Value value, int64_t step) {
    auto *it = buffers.find(baseOf(value));
    if (it == buffers.end())
      return;
    if (it->second.begin < 0)
      it->second.begin = step;
    it->second.end = step;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Working in place
//===----------------------------------------------------------------------===//

/// Makes `output`, an unused arena buffer, a view of `input`'s buffer.
static void unify(Value input, exec::ArenaOp output) {
  Value replacement = input;
  if (input.getType() != output.getResult().getType()) {
    OpBuilder builder(output);
    // The view must be behind the input's definition and before the output's
    // users.
    replacement = exec::ViewOp::create(builder, output.getLoc(),
                                       output.getResult().getType(), input, 0);
  }
  output.getResult().replaceAllUsesWith(replacement);
  output.erase();
}

/// Whether `buffer` is a whole arena buffer (reshaped at most) that no op after
/// `op` uses.
static bool diesAt(Value buffer, Operation *op) {
  Value base = baseOf(buffer);
  auto arena = base.getDefiningOp<exec::ArenaOp>();
  if (!arena || exec::sizeBytes(cast<MemRefType>(buffer.getType())) !=
                    exec::sizeBytes(arena.getResult().getType()))
    return false;
  SmallVector<Value> aliases = {base};
  while (!aliases.empty())
    for (Operation *user : aliases.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<exec::ViewOp>(user))
        aliases.push_back(view.getResult());
      else if (op->isBeforeInBlock(user))
        return false;
      else if (auto start = dyn_cast<exec::CollectiveStartOp>(user);
               start && user != op)
        for (Operation *wait : start.getEvent().getUsers())
          if (op->isBeforeInBlock(wait))
            return false;
    }
  return true;
}

/// Whether `output` is an arena buffer that is first written by `op`.
static exec::ArenaOp freshAt(Value output, Operation *op) {
  auto arena = output.getDefiningOp<exec::ArenaOp>();
  if (!arena)
    return {};
  SmallVector<Value> aliases = {output};
  while (!aliases.empty())
    for (Operation *user : aliases.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<exec::ViewOp>(user))
        aliases.push_back(view.getResult());
      else if (user->isBeforeInBlock(op))
        return {};
    }
  return arena;
}

/// Collectives of some kinds, blocking or started, may work in place.
template <typename Op> static void moveInPlace(Op collective) {
  if (!mayBeInPlace(collective.getKind().getValue()) ||
      collective.getSrc() == collective.getDst() ||
      !diesAt(collective.getSrc(), collective))
    return;
  if (exec::ArenaOp fresh = freshAt(collective.getDst(), collective))
    unify(collective.getSrc(), fresh);
}

static void workInPlace(exec::FuncOp function, SymbolTable &symbols) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto collective = dyn_cast<exec::CollectiveOp>(op)) {
      moveInPlace(collective);
      continue;
    }
    if (auto start = dyn_cast<exec::CollectiveStartOp>(op)) {
      moveInPlace(start);
      continue;
    }
    if (auto call = dyn_cast<exec::LibraryCallInterface>(op)) {
      OpOperand *operand = call.getInPlaceOperand();
      if (!operand)
        continue;
      Value input = operand->get();
      bool alone = llvm::count_if(call.getReads(), [&](Value other) {
                     return baseOf(other) == baseOf(input);
                   }) == 1;
      if (exec::ArenaOp fresh = freshAt(call.getDestination().get(), &op);
          fresh && alone && diesAt(input, &op))
        unify(input, fresh);
      continue;
    }
    auto launch = dyn_cast<exec::LaunchOp>(op);
    if (!launch)
      continue;
    auto kernel = symbols.lookup<exec::KernelOp>(launch.getKernel());
    SmallVector<Operation *> ops;
    for (Operation &member : kernel.getBody().front().without_terminator())
      ops.push_back(&member);
    DenseSet<Value> given;
    for (unsigned o = 0; o < launch.getOutputs().size(); ++o) {
      exec::ArenaOp fresh = freshAt(launch.getOutputs()[o], &op);
      if (!fresh)
        continue;
      SmallVector<Value> inputs(launch.getInputs());
      auto diesHere = [&](Value input) {
        return exec::sizeBytes(cast<MemRefType>(input.getType())) ==
                   exec::sizeBytes(fresh.getResult().getType()) &&
               diesAt(input, &op);
      };
      auto mayShare = [&](unsigned i) { return mayShareBuffer(ops, i, o); };
      int64_t chosen =
          chooseOverwritten(inputs, {baseOf, diesHere, mayShare}, given);
      if (chosen >= 0)
        unify(inputs[chosen], fresh);
    }
  }
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

static LogicalResult planFunction(exec::FuncOp function) {
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

LogicalResult kerf::planArenas(ModuleOp module) {
  SymbolTable symbols(module);
  for (auto function : module.getOps<exec::FuncOp>()) {
    workInPlace(function, symbols);
    if (failed(planFunction(function)))
      return failure();
  }
  for (auto stage : module.getOps<exec::StageOp>())
    if (failed(planStage(stage, symbols)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Entries of one kind are numbered 0, 1, ... without gaps.
static LogicalResult checkDense(ModuleOp module, StringRef what,
                                SmallVector<int64_t> indices) {
  llvm::sort(indices);
  for (auto [i, index] : llvm::enumerate(indices))
    if (index != static_cast<int64_t>(i))
      return module.emitError("numbers of ")
             << what << " are not 0 to " << indices.size() - 1;
  return success();
}

LogicalResult kerf::verifyLowered(ModuleOp module) {
  SmallVector<int64_t> kernels, library, collectives, parameters;
  for (Operation &op : *module.getBody()) {
    if (!isa<exec::ExecDialect>(op.getDialect()))
      return op.emitError("is left after lowering: ") << op.getName();
    if (auto kernel = dyn_cast<exec::KernelOp>(op))
      kernels.push_back(kernel.getIndex());
    if (auto parameter = dyn_cast<exec::ParameterOp>(op))
      parameters.push_back(parameter.getIndex());
    auto function = dyn_cast<exec::FuncOp>(op);
    if (!function)
      continue;
    if (!function.getScratch())
      return function.emitError("has no planned scratch");
    for (Operation &call : function.getBody().front()) {
      if (auto entry = dyn_cast<exec::LibraryCallInterface>(call))
        library.push_back(entry.getIndex());
      if (auto entry = dyn_cast<exec::CollectiveOp>(call))
        collectives.push_back(entry.getIndex());
      if (auto entry = dyn_cast<exec::CollectiveStartOp>(call))
        collectives.push_back(entry.getIndex());
    }
    Lives lives(function);
    SmallVector<ArenaBuffer> buffers;
    ArenaPlan plan;
    plan.totalBytes = *function.getScratch();
    for (auto &[value, buffer] : lives.buffers) {
      buffers.push_back(buffer);
      plan.offsets.push_back(*value.getDefiningOp<exec::ArenaOp>().getOffset());
    }
    std::string wrong = checkArena(buffers, plan, exec::bufferAlignment);
    if (!wrong.empty())
      return function.emitError("") << wrong;
  }
  if (failed(checkDense(module, "kernels", kernels)) ||
      failed(checkDense(module, "library calls", library)) ||
      failed(checkDense(module, "collectives", collectives)) ||
      failed(checkDense(module, "parameters", parameters)))
    return failure();
  return success();
}
