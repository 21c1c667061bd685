//===- WorkInPlace.cpp - results where operands were ----------------------===//
//
// Kernels write over an input that nobody reads any more (where code generation
// says that it may), library calls over the operand that they may overwrite,
// and collectives that send back what they were given work in place: two arena
// buffers become one. What a function is given in a slot that nobody reads
// behind it, as sums over micro-batches in front of the update, is such a
// buffer as well, also if it adds to the slot first. Linear in the uses of
// buffers.
//
//===----------------------------------------------------------------------===//
#include "Lives.h"

#include "kerf/Fusion/Groups.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_WORKINPLACE
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Lets `output` (an unused arena buffer so far) be `input`'s buffer.
static void unify(Value input, exec::ArenaOp output) {
  Value replacement = input;
  if (input.getType() != output.getResult().getType()) {
    OpBuilder builder(output);
    // Behind the input's definition and in front of the output's users.
    replacement = exec::ViewOp::create(builder, output.getLoc(),
                                       output.getResult().getType(), input, 0);
  }
  output.getResult().replaceAllUsesWith(replacement);
  output.erase();
}

/// Arguments of functions in slots that are for nobody behind them.
using GivenUp = DenseSet<Value>;

/// Whether the slot is the program's own, between its functions, and nothing
/// behind `run` reads it.
static bool isLastRead(Value slot, exec::RunOp run) {
  return llvm::all_of(slot.getUsers(), [&](Operation *user) {
    return isa<exec::RunOp, exec::ZeroOp>(user) && !run->isBeforeInBlock(user);
  });
}

/// Whether the argument alone stands for its slot: the slot is read alone, or
/// is a sum that the function reads and adds to.
static bool isOnlyOfSlot(unsigned argument, size_t numInputs, exec::RunOp run) {
  Value slot = run.getSlots()[argument];
  int64_t inputs = llvm::count(run.getSlots().take_front(numInputs), slot);
  int64_t outputs = llvm::count(run.getSlots().drop_front(numInputs), slot);
  return inputs == 1 && outputs == (argument < numInputs ? 0 : 1);
}

static GivenUp findGivenUp(ModuleOp module, SymbolTable &symbols) {
  GivenUp given;
  DenseSet<Value> kept;
  module.walk([&](exec::RunOp run) {
    auto function = symbols.lookup<exec::FuncOp>(run.getCallee());
    auto numInputs = static_cast<size_t>(function.getNumInputs());
    for (BlockArgument argument : function.getBody().getArguments()) {
      unsigned number = argument.getArgNumber();
      bool isGiven = isOnlyOfSlot(number, numInputs, run) &&
                     isLastRead(run.getSlots()[number], run);
      (isGiven ? given : kept).insert(argument);
    }
  });
  for (Value argument : kept)
    given.erase(argument);
  return given;
}

/// Whether `buffer` is a whole buffer (reshaped at most), of the arena or given
/// up, that no op after `op` uses.
static bool diesAt(Value buffer, Operation *op, const GivenUp &given) {
  Value base = baseOf(buffer);
  if (!base.getDefiningOp<exec::ArenaOp>() && !given.contains(base))
    return false;
  if (exec::sizeBytes(cast<MemRefType>(buffer.getType())) !=
      exec::sizeBytes(cast<MemRefType>(base.getType())))
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

/// Some collectives, waited for at once or later, may be in place.
template <typename Op>
static void moveInPlace(Op collective, const GivenUp &given) {
  if (!mayBeInPlace(collective.getKind().getValue()) ||
      collective.getSrc() == collective.getDst() ||
      !diesAt(collective.getSrc(), collective, given))
    return;
  if (exec::ArenaOp fresh = freshAt(collective.getDst(), collective))
    unify(collective.getSrc(), fresh);
}

static void workInPlace(exec::FuncOp function, SymbolTable &symbols,
                        const GivenUp &givenUp) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto collective = dyn_cast<exec::CollectiveOp>(op)) {
      moveInPlace(collective, givenUp);
      continue;
    }
    if (auto start = dyn_cast<exec::CollectiveStartOp>(op)) {
      moveInPlace(start, givenUp);
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
          fresh && alone && diesAt(input, &op, givenUp))
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
    DenseSet<Value> given; // what another output is written to
    for (Value output : launch.getOutputs())
      given.insert(baseOf(output));
    for (unsigned o = 0; o < launch.getOutputs().size(); ++o) {
      exec::ArenaOp fresh = freshAt(launch.getOutputs()[o], &op);
      if (!fresh)
        continue;
      SmallVector<Value> inputs(launch.getInputs());
      auto diesHere = [&](Value input) {
        return exec::sizeBytes(cast<MemRefType>(input.getType())) ==
                   exec::sizeBytes(fresh.getResult().getType()) &&
               diesAt(input, &op, givenUp);
      };
      auto mayShare = [&](unsigned i) { return mayShareBuffer(ops, i, o); };
      int64_t chosen =
          chooseOverwritten(inputs, {baseOf, diesHere, mayShare}, given);
      if (chosen >= 0)
        unify(inputs[chosen], fresh);
    }
  }
}

namespace {
struct WorkInPlace : kerf::impl::WorkInPlaceBase<WorkInPlace> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    GivenUp givenUp = findGivenUp(getOperation(), symbols);
    for (auto function : getOperation().getOps<exec::FuncOp>())
      workInPlace(function, symbols, givenUp);
  }
};
} // namespace
