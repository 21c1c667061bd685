//===- Bufferize.cpp - a function of groups as calls on buffers -----------===//
//
// See Bufferize.h.
//
//===----------------------------------------------------------------------===//
#include "Bufferize.h"

#include "../Calls.h"
#include "../Library/Strides.h"
#include "../OpKinds.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

static MemRefType bufferType(Type type) {
  auto tensor = dist::tensorOf(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

/// A kernel's name, such as "add_gelu_12": its first compute ops, at most four.
static std::string kernelName(exec::GroupOp group) {
  auto ops = group.getBody().front().without_terminator();
  bool single = llvm::hasSingleElement(ops);
  std::string name;
  int count = 0;
  for (Operation &op : ops)
    if (!isInline(&op) && (single || !isShapeOp(&op)) && count++ < 4)
      name += op.getName().stripDialect().str() + "_";
  return (name.empty() ? "move_" : name) + std::to_string(group.getIndex());
}

static bool isAtLoad(Operation *op) {
  auto group = dyn_cast<exec::GroupOp>(op);
  return group ? group.getAtLoad() : op->hasAttr(exec::kAtLoad);
}

/// The op of the model after which `value` is named: a group has several.
static Location sourceLoc(Value value) {
  if (auto group = value.getDefiningOp<exec::GroupOp>())
    return group.getBody()
        .front()
        .getTerminator()
        ->getOperand(cast<OpResult>(value).getResultNumber())
        .getLoc();
  return value.getLoc();
}

/// The value whose memory holds `value`, behind reshapes and waits.
static Value storedValue(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getX();
  if (auto wait = value.getDefiningOp<dist::WaitOp>())
    value = wait.getPending();
  return value;
}

namespace {
class Bufferizer {
public:
  Bufferizer(func::FuncOp function, int64_t stage, ProgramState &state)
      : function(function), stage(stage), state(state),
        builder(function.getContext()) {}

  LogicalResult run(exec::Phase phase, StringRef name) {
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    findPlaces();
    findDerived();
    if (!derived.empty())
      emitInit(name);
    emitForward(phase, name);
    return failure(failedOnce || state.parameters.hadErrors());
  }

private:
  /// Where the values of the function that is being emitted are.
  struct Frame {
    exec::FuncOp op;
    DenseMap<Value, Value> buffers;
    DenseMap<Value, Value> placed;  ///< values that live in a result
    DenseMap<Value, Value> events;  ///< pending value -> event
    DenseMap<Value, Value> weights; ///< parameters as library calls have them
    DenseMap<Value, Value> offered; ///< where calls may write it, too
  };

  /// A result of a group or call, and the operand that names its destination.
  template <typename Visit>
  static void forEachResult(Operation *op, Visit visit) {
    if (auto group = dyn_cast<exec::GroupOp>(op)) {
      for (auto [result, place] :
           llvm::zip_equal(group.getResults(), group.getDestinations()))
        visit(result, place);
    } else if (auto call = dyn_cast<exec::LibraryCallInterface>(op)) {
      for (auto [result, place] : llvm::zip(op->getResults(), call.getWrites()))
        visit(result, place);
    }
  }

  void findPlaces() {
    for (Operation *op : ops)
      forEachResult(op, [&](Value result, Value place) {
        if (place.getDefiningOp<exec::EmptyOp>())
          ownerOf[place] = result;
        else
          overwritten[result] = place;
      });
  }

  /// Values computed at load that others, or the terminator, read.
  void findDerived() {
    auto visit = [&](Value value) {
      Operation *def = value.getDefiningOp();
      if (!def || !isAtLoad(def) || derived.count(value))
        return;
      std::string name = modelNode(sourceLoc(value));
      name += (name.empty() ? "derived_" : ".derived_") +
              std::to_string(derived.size());
      if (stage || function.getName() != "main")
        name = function.getName().str() + "." + name;
      derived[value] = state.parameters.addDerived(
          name, cast<RankedTensorType>(value.getType()), stage);
    };
    for (Operation *op : ops)
      if (!isAtLoad(op))
        for (Value input : op->getOperands())
          visit(input);
    for (Value value : terminator()->getOperands())
      visit(value);
  }

  Operation *terminator() { return function.getBody().front().getTerminator(); }

  exec::FuncOp startFunction(Location loc, StringRef name, exec::Phase phase,
                             ArrayRef<Type> arguments, int64_t numInputs) {
    builder.setInsertionPoint(function);
    auto op = exec::FuncOp::create(
        builder, loc, builder.getStringAttr(name),
        TypeAttr::get(builder.getFunctionType(arguments, {})), ArrayAttr(),
        ArrayAttr(), builder.getI64IntegerAttr(numInputs),
        builder.getI64IntegerAttr(stage),
        exec::PhaseAttr::get(builder.getContext(), phase), IntegerAttr(),
        DenseI64ArrayAttr());
    Block *block = builder.createBlock(&op.getBody());
    block->addArguments(arguments,
                        SmallVector<Location>(arguments.size(), loc));
    builder.setInsertionPointToStart(block);
    frame = Frame();
    frame.op = op;
    return op;
  }

  void emitInit(StringRef name) {
    SmallVector<Type> types;
    SmallVector<int64_t> indices;
    for (auto [value, index] : derived) {
      types.push_back(bufferType(value.getType()));
      indices.push_back(index);
    }
    exec::FuncOp op = startFunction(function.getLoc(), (name + "_init").str(),
                                    exec::Phase::Init, types, 0);
    op.setDerivedAttr(builder.getDenseI64ArrayAttr(indices));
    for (auto [i, entry] : llvm::enumerate(derived))
      frame.placed[entry.first] = op.getBody().getArgument(i);
    inInit = true;
    for (Operation *op : ops)
      if (isAtLoad(op))
        emitOp(op);
    // A view of another value is copied to the place where it must be.
    for (auto [i, entry] : llvm::enumerate(derived)) {
      Value value = entry.first, argument = op.getBody().getArgument(i);
      if (frame.buffers.lookup(value) != argument)
        exec::CopyOp::create(builder, value.getLoc(), buffer(value), argument);
    }
    inInit = false;
    exec::ReturnOp::create(builder, function.getLoc());
  }

  void emitForward(exec::Phase phase, StringRef name) {
    SmallVector<Type> types;
    for (Type type : function.getArgumentTypes())
      types.push_back(bufferType(type));
    for (Type type : function.getResultTypes())
      types.push_back(bufferType(type));
    int64_t numInputs = function.getNumArguments();
    exec::FuncOp op =
        startFunction(function.getLoc(), name, phase, types, numInputs);
    Block &block = op.getBody().front();
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      // The argument and the result of a sum over micro-batches are one buffer.
      if (auto result =
              dist::numberFrom(function, number, dist::From::Accumulator))
        number = numInputs + *result;
      frame.buffers[argument] = block.getArgument(number);
    }
    for (Operation *each : ops)
      if (auto assign = dyn_cast<dist::AssignOp>(each);
          assign && isDone(assign))
        buffer(assign.getSource());
    placeResults(block, numInputs);
    for (Operation *each : ops)
      if (!isAtLoad(each))
        emitOp(each);
    for (OpOperand &use : terminator()->getOpOperands()) {
      Value target = block.getArgument(numInputs + use.getOperandNumber());
      if (returned.lookup(use.getOperandNumber()) != target)
        exec::CopyOp::create(builder, terminator()->getLoc(), buffer(use.get()),
                             target);
    }
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      bool input = static_cast<int64_t>(i) < numInputs;
      auto label = input ? function.getArgAttr(i, kNameAttr)
                         : function.getResultAttr(i - numInputs, kNameAttr);
      if (label)
        op.setArgAttr(i, kNameAttr, label);
    }
    exec::ReturnOp::create(builder, function.getLoc());
  }

  /// A returned value is computed directly in the caller's buffer, also through
  /// reshapes. It is copied if it is returned twice, or not computed in this
  /// function. A sum over micro-batches that is written over its argument is
  /// already in the caller's buffer.
  void placeResults(Block &block, int64_t numInputs) {
    SmallVector<int64_t> sums = accumulators(function);
    for (OpOperand &use : terminator()->getOpOperands()) {
      unsigned number = use.getOperandNumber();
      Value value = storedValue(use.get());
      Value target = block.getArgument(numInputs + number);
      if (Value old = overwritten.lookup(value)) {
        if (frame.buffers.lookup(storedValue(old)) == target)
          returned[number] = target;
        continue;
      }
      Operation *def = value.getDefiningOp();
      bool computed = def && !isAtLoad(def) && !isAlias(def) &&
                      !isa<SourceOpInterface>(def);
      if (!computed || frame.placed.count(value) || sums[number] >= 0)
        continue;
      frame.placed[value] = target;
      returned[number] = target;
    }
  }

  /// The buffer of a value; parameters are fetched at their first use.
  Value buffer(Value value) {
    if (Value known = frame.buffers.lookup(value))
      return known;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&frame.op.getBody().front());
    int64_t index;
    Operation *def = value.getDefiningOp();
    if (auto it = derived.find(value); it != derived.end() && !inInit) {
      index = it->second;
      state.parameters.use(index, false);
    } else if (isa_and_nonnull<SourceOpInterface>(def)) {
      index = state.parameters.get(def, stage, false, inInit);
    } else if (Value whole = joinInto(value)) {
      return frame.buffers[value] = target(whole);
    } else {
      failedOnce = true;
      mlir::emitError(value.getLoc(),
                      "value is not computed before it is used");
      return exec::ArenaOp::create(builder, value.getLoc(),
                                   bufferType(value.getType()), IntegerAttr());
    }
    Value param = exec::ParamOp::create(builder, value.getLoc(),
                                        bufferType(value.getType()), index);
    return frame.buffers[value] = param;
  }

  /// The exec.join whose parts are written into `place`; null: none.
  static Value joinInto(Value place) {
    if (place.getDefiningOp<exec::EmptyOp>())
      for (Operation *user : place.getUsers())
        if (auto join = dyn_cast<exec::JoinOp>(user))
          return join.getResult();
    return {};
  }

  /// Copies those parts that were not written in their place.
  void emitJoin(exec::JoinOp join) {
    auto placeOf = [](Value buffer) {
      int64_t offset = 0;
      for (; auto view = buffer.getDefiningOp<exec::ViewOp>();
           buffer = view.getSource())
        offset += view.getByteOffset();
      return std::pair(buffer, offset);
    };
    Value whole = buffer(join.getDestination());
    frame.buffers[join.getResult()] = whole;
    auto [memory, offset] = placeOf(whole);
    int64_t bytes = 0;
    for (Value part : join.getParts()) {
      MemRefType type = bufferType(part.getType());
      int64_t first = std::exchange(bytes, bytes + exec::sizeBytes(type));
      if (placeOf(buffer(part)) == std::pair(memory, offset + first))
        continue;
      Value place =
          exec::ViewOp::create(builder, join.getLoc(), type, whole, first);
      exec::CopyOp::create(builder, join.getLoc(), buffer(part), place);
    }
  }

  /// A buffer for a value that is about to be computed.
  Value target(Value value) {
    if (Value known = frame.offered.lookup(value))
      return frame.buffers[value] = known;
    Value result, place = frame.placed.lookup(value);
    if (Value old = overwritten.lookup(value))
      place = buffer(old);
    if (place) {
      MemRefType type = bufferType(value.getType());
      result =
          place.getType() == type
              ? place
              : exec::ViewOp::create(builder, value.getLoc(), type, place, 0)
                    .getResult();
    } else {
      result = exec::ArenaOp::create(
          builder, value.getLoc(), bufferType(value.getType()), IntegerAttr());
    }
    return frame.buffers[value] = result;
  }

  /// A buffer that a call may write besides its results (an offer): the memory
  /// of a kernel's result, even if that kernel is emitted later.
  Value offeredTarget(Value place) {
    Value result = ownerOf.lookup(place);
    if (!frame.buffers.lookup(result))
      frame.offered[result] = target(result);
    return buffer(result);
  }

  void emitOp(Operation *op) {
    if (isa<exec::EmptyOp, SourceOpInterface>(op))
      return; // when they are asked for
    if (auto group = dyn_cast<exec::GroupOp>(op))
      return emitKernel(group);
    if (auto call = dyn_cast<exec::LibraryCallInterface>(op))
      return emitLibrary(call);
    if (isAlias(op))
      return emitAlias(op);
    if (auto join = dyn_cast<exec::JoinOp>(op))
      return emitJoin(join);
    if (auto loop = dyn_cast<exec::LoopOp>(op))
      return emitLoop(loop);
    emitOther(op);
  }

  /// Emits the loop on buffers, with the buffers that it needs in addition: a
  /// second set for what it carries and the scratch memory of its body.
  void emitLoop(exec::LoopOp loop) {
    auto buffers = [&](ValueRange values) {
      return llvm::map_to_vector(values,
                                 [&](Value value) { return buffer(value); });
    };
    SmallVector<Value> inits = buffers(loop.getInits()),
                       captures = buffers(loop.getCaptures()), outs,
                       temporaries;
    Value trip = buffer(loop.getTrip()),
          condition = buffer(loop.getCondition());
    auto addTemporary = [&](Type type) {
      temporaries.push_back(exec::ArenaOp::create(
          builder, loop.getLoc(), cast<MemRefType>(type), IntegerAttr()));
    };
    addTemporary(trip.getType());
    addTemporary(condition.getType());
    for (auto [number, result] : llvm::enumerate(loop.getResults())) {
      outs.push_back(target(result));
      auto type = cast<MemRefType>(outs.back().getType());
      if (number > inits.size()) // of what is stacked, one
        type = MemRefType::get(type.getShape().drop_front(),
                               type.getElementType());
      if (number > 0)
        addTemporary(type);
    }
    exec::LoopOp::create(builder, loop.getLoc(), TypeRange(),
                         loop.getBodyAttr(), loop.getLimitAttr(), trip,
                         condition, inits, captures, outs, temporaries);
  }

  void emitAlias(Operation *op) {
    int64_t offset = 0;
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      auto type = slice.getX().getType();
      Dims strides = denseStrides(type.getShape());
      for (auto [start, stride] : llvm::zip(slice.getStarts(), strides))
        offset += start * stride;
      offset *= exec::elementBytes(type.getElementType());
    }
    Value result = op->getResult(0);
    frame.buffers[result] = exec::ViewOp::create(
        builder, op->getLoc(), bufferType(result.getType()),
        buffer(op->getOperand(0)), offset);
  }

  void emitKernel(exec::GroupOp group) {
    std::string name = kernelName(group);
    Location loc = group.getLoc();
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(frame.op);
      auto kernel = exec::KernelOp::create(
          builder, loc, builder.getStringAttr(name),
          TypeAttr::get(builder.getFunctionType(group.getInputs().getTypes(),
                                                group.getResultTypes())),
          ArrayAttr(), ArrayAttr(), group.getIndexAttr(), group.getNodeAttr(),
          IntegerAttr(), IntegerAttr(), group.getPhaseAttr(),
          exec::GpuKernelAttr());
      IRMapping mapping;
      group.getBody().cloneInto(&kernel.getBody(), mapping);
    }
    SmallVector<Value> inputs, outputs;
    for (Value value : group.getInputs())
      inputs.push_back(buffer(value));
    for (Value value : group.getResults())
      outputs.push_back(target(value));
    exec::LaunchOp::create(builder, loc,
                           FlatSymbolRefAttr::get(builder.getContext(), name),
                           inputs, outputs);
  }

  /// An operand of a call: a buffer, or a parameter in the form of a weight.
  Value operandOf(exec::LibraryCallInterface call, OpOperand &operand) {
    Value value = operand.get();
    Operation *def = value.getDefiningOp();
    // A parameter that a step writes is always a buffer.
    if (!call.takesWeights() || isMutableSource(def))
      return buffer(value);
    int64_t index;
    bool packed = call.packs(operand);
    if (isa_and_nonnull<SourceOpInterface>(def)) {
      index = state.parameters.get(def, stage, packed, inInit);
    } else if (auto it = derived.find(value); it != derived.end()) {
      index = it->second;
      state.parameters.use(index, packed);
    } else {
      return buffer(value);
    }
    Value &weight = frame.weights[value];
    if (!weight) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&frame.op.getBody().front());
      MemRefType type = bufferType(value.getType());
      weight = exec::WeightOp::create(
          builder, value.getLoc(),
          exec::WeightType::get(builder.getContext(), type.getShape(),
                                type.getElementType()),
          builder.getI64IntegerAttr(index));
    }
    return weight;
  }

  /// Emits the same call, on buffers.
  void emitLibrary(exec::LibraryCallInterface call) {
    OperationState bufferized(call->getLoc(), call->getName());
    bufferized.addAttributes(call->getAttrs());
    unsigned firstWritten = call.getDestination().getOperandNumber();
    unsigned numResults = call->getNumResults();
    for (OpOperand &operand : call->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      if (number < firstWritten)
        bufferized.addOperands(operandOf(call, operand));
      else if (number < firstWritten + numResults)
        bufferized.addOperands(target(call->getResult(number - firstWritten)));
      else
        bufferized.addOperands(offeredTarget(operand.get()));
    }
    builder.create(bufferized);
  }

  /// Whether the value is computed directly over the old one.
  bool isDone(dist::AssignOp assign) const {
    Value old = overwritten.lookup(storedValue(assign.getValue()));
    return old && storedValue(old) == assign.getSource();
  }

  void emitOther(Operation *op) {
    Location loc = op->getLoc();
    if (auto index = dyn_cast<dist::ShardIndexOp>(op)) {
      Value result = target(index.getResult());
      dist::AxesAttr axes = index.getAxes();
      int64_t number =
          state.shardIndices.insert({axes, state.shardIndices.size()})
              .first->second;
      exec::ShardIndexOp::create(builder, loc, number, axes, result);
      return;
    }
    if (auto wait = dyn_cast<dist::WaitOp>(op)) {
      if (Value event = frame.events.lookup(wait.getPending())) {
        exec::CollectiveWaitOp::create(builder, loc, event);
        --numStarted;
      }
      frame.buffers[wait.getResult()] = buffer(wait.getPending());
      return;
    }
    if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
      Value source = buffer(op->getOperand(0));
      Value result = target(op->getResult(0));
      bool starts = collective.isStarted() && numStarted < maxStarted;
      numStarted += starts;
      Value event = emitCollective(builder, op, state.numCollectives++, source,
                                   result, starts);
      if (starts)
        frame.events[op->getResult(0)] = event;
      return;
    }
    if (auto assign = dyn_cast<dist::AssignOp>(op)) {
      if (!isDone(assign))
        exec::CopyOp::create(builder, loc, buffer(assign.getValue()),
                             buffer(assign.getSource()));
      return;
    }
    failedOnce = true;
    if (isa<nn::NNDialect>(op->getDialect()))
      op->emitOpError("stands in no group (see kerf-form-kernels)");
    else
      op->emitError("cannot be lowered: ") << op->getName();
  }

  func::FuncOp function;
  int64_t stage;
  ProgramState &state;
  OpBuilder builder;
  SmallVector<Operation *> ops; ///< of the function
  /// `ownerOf`: the result that is written into an exec.empty. `overwritten`:
  /// the old value over which a result is written.
  DenseMap<Value, Value> ownerOf, overwritten;
  llvm::MapVector<Value, int64_t> derived;
  DenseMap<unsigned, Value> returned;
  Frame frame;
  bool inInit = false, failedOnce = false;
  /// Limit on the collectives under way in one group: one fewer than the
  /// runtime allows (KERF_MAX_STARTED), since a collective that is waited for
  /// at once needs room as well.
  static constexpr int64_t maxStarted = 15;
  int64_t numStarted = 0;
};
} // namespace

LogicalResult kerf::bufferizeFunction(func::FuncOp function, int64_t stage,
                                      exec::Phase phase, StringRef name,
                                      ProgramState &state) {
  return Bufferizer(function, stage, state).run(phase, name);
}
