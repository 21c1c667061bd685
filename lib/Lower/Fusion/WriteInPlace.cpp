//===- WriteInPlace.cpp - results that are written over old values --------===//
//
// State that outlives a step has one memory: the op that computes the value of
// a dist.assign, or of a sum over micro-batches, writes it over the old value
// if all other readers of the old value can run before; else it writes
// elsewhere, and the value is copied last. One walk of the graph for each such
// value.
//
// A part of exec.join is written in its place, which has no old value.
//===----------------------------------------------------------------------===//
#include "../OpKinds.h"
#include "BlockOrder.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_WRITEINPLACE
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// A value whose memory has an old value: that of a mutable source, or of the
/// argument of a sum over micro-batches.
struct Destination {
  Value value, place;
};

static SmallVector<Destination> findDestinations(func::FuncOp function) {
  SmallVector<Destination> destinations;
  Block &block = function.getBody().front();
  for (auto assign : block.getOps<dist::AssignOp>())
    destinations.push_back({assign.getValue(), assign.getSource()});
  for (auto [result, argument] : llvm::enumerate(accumulators(function)))
    if (argument >= 0)
      destinations.push_back({block.getTerminator()->getOperand(result),
                              block.getArgument(argument)});
  return destinations;
}

/// Whether the op may write `result` over `place`, which it may read, too.
static bool mayOverwrite(OpResult result, Value place) {
  Operation *op = result.getOwner();
  if (auto group = dyn_cast<exec::GroupOp>(op)) {
    if (group.getAtLoad())
      return false;
    SmallVector<Operation *> ops;
    for (Operation &inside : group.getBody().front().without_terminator())
      ops.push_back(&inside);
    return llvm::all_of(llvm::enumerate(group.getInputs()), [&](auto input) {
      return memoryOf(input.value()) != place ||
             mayShareBuffer(ops, input.index(), result.getResultNumber());
    });
  }
  auto call = dyn_cast<exec::LibraryCallInterface>(op);
  if (!call)
    return false;
  // The call may take what it changes from where it writes.
  OpOperand *changed = call.getInPlaceOperand();
  bool isPlace = changed && result.getResultNumber() == 0 &&
                 computedValue(changed->get()) == place;
  return llvm::count_if(call.getReads(), [&](Value input) {
           return memoryOf(input) == place;
         }) == (isPlace ? 1 : 0);
}

static void writeInPlace(func::FuncOp function) {
  BlockOrder order(function.getBody().front());
  for (Destination destination : findDestinations(function)) {
    auto result = dyn_cast<OpResult>(computedValue(destination.value));
    if (!result || overwrittenBy(result) ||
        !mayOverwrite(result, destination.place))
      continue;
    Operation *writer = result.getOwner();
    SmallVector<Operation *> readers = order.readersOf(destination.place);
    DenseSet<Operation *> others(readers.begin(), readers.end());
    others.erase(writer);
    if (!others.empty() && order.isReachable(writer, others))
      continue;
    OpOperand &operand = destinationsOf(writer)[result.getResultNumber()];
    Operation *memory = operand.get().getDefiningOp();
    if (!operand.get().hasOneUse())
      continue;
    Value place = destination.place;
    if (Operation *source = place.getDefiningOp();
        source && writer->isBeforeInBlock(source))
      source->moveBefore(writer);
    if (place.getType() != result.getType()) {
      OpBuilder builder(writer);
      place = nn::ReshapeOp::create(builder, result.getLoc(), result.getType(),
                                    place);
    }
    operand.set(place);
    memory->erase();
    for (Operation *reader : readers)
      if (reader != writer)
        order.addEdge(reader, writer);
  }
}

/// The destination of a result of a group or call of this step, if it is memory
/// of its own; else null.
static OpOperand *ownMemoryOf(OpResult result) {
  if (!result)
    return nullptr;
  auto group = dyn_cast<exec::GroupOp>(result.getOwner());
  MutableArrayRef<OpOperand> places = destinationsOf(result.getOwner());
  if ((group && group.getAtLoad()) || result.getResultNumber() >= places.size())
    return nullptr;
  OpOperand &place = places[result.getResultNumber()];
  return place.get().getDefiningOp<exec::EmptyOp>() && place.get().hasOneUse()
             ? &place
             : nullptr;
}

/// Has the parts of a join written where they belong.
static void writeParts(exec::JoinOp join) {
  Value whole = join.getDestination();
  // Views of it stand in front of what writes them.
  whole.getDefiningOp()->moveBefore(&join->getBlock()->front());
  auto type = cast<RankedTensorType>(whole.getType());
  int64_t elements = 0;
  for (Value part : join.getParts()) {
    auto shape = cast<RankedTensorType>(part.getType());
    int64_t first = elements;
    elements += shape.getNumElements();
    auto result = dyn_cast<OpResult>(computedValue(part));
    OpOperand *place = ownMemoryOf(result);
    if (!place || first * exec::elementBytes(type.getElementType()) %
                          exec::bufferAlignment !=
                      0)
      continue;
    OpBuilder builder(result.getOwner());
    SmallVector<int64_t> starts(type.getRank()), steps(type.getRank(), 1);
    for (int64_t d = type.getRank() - 1, left = first; d >= 0; --d) {
      starts[d] = left % type.getDimSize(d);
      left /= type.getDimSize(d);
    }
    Value view = nn::SliceOp::create(builder, join.getLoc(), shape, whole,
                                     starts, shape.getShape(), steps);
    if (view.getType() != result.getType())
      view =
          nn::ReshapeOp::create(builder, join.getLoc(), result.getType(), view);
    Operation *memory = place->get().getDefiningOp();
    place->set(view);
    memory->erase();
  }
}

namespace {
struct WriteInPlace : kerf::impl::WriteInPlaceBase<WriteInPlace> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (!*block)
      return;
    writeInPlace(getOperation());
    for (auto join : (*block)->getOps<exec::JoinOp>())
      writeParts(join);
  }
};
} // namespace
