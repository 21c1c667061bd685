//===- EmitFunction.cpp - a function of tensor ops as calls ---------------===//
//
// See EmitFunction.h.
//
//===----------------------------------------------------------------------===//
#include "EmitFunction.h"

#include "Calls.h"
#include "Units.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

static MemRefType bufferType(Type type) {
  auto tensor = dist::tensorOf(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

/// "add_gelu_12": the ops that compute, at most four.
static std::string kernelName(ArrayRef<Operation *> ops, int64_t index) {
  std::string name;
  int count = 0;
  for (Operation *op : ops)
    if (!isInline(op) && (!isShapeOp(op) || ops.size() == 1) && count++ < 4)
      name += op->getName().stripDialect().str() + "_";
  return (name.empty() ? "move_" : name) + std::to_string(index);
}

namespace {
class Emitter {
public:
  Emitter(func::FuncOp function, int64_t stage, ProgramState &state)
      : function(function), stage(stage), state(state),
        builder(function.getContext()) {}

  FailureOr<EmittedFunction> emit(exec::Phase phase, StringRef name) {
    auto formed = formUnits(function, destinations);
    if (failed(formed))
      return failure();
    units = std::move(*formed);
    EmittedFunction result;
    findDerived();
    numberKernels();
    if (!derived.empty())
      result.init = emitInit(name);
    result.forward = emitForward(phase, name);
    if (failedOnce || state.parameters.hadErrors())
      return failure();
    return result;
  }

private:
  /// Where the function that is being emitted has its values.
  struct Frame {
    exec::FuncOp op;
    DenseMap<Value, Value> buffers;
    DenseMap<Value, Value> placed;  ///< values that live in a result
    DenseMap<Value, Value> events;  ///< pending value -> event
    DenseMap<Value, Value> weights; ///< parameters as library calls have them
    DenseMap<Value, Value> offered; ///< where calls may write it, too
  };

  /// Values of init units that other units, or the terminator, read.
  void findDerived() {
    DenseMap<Value, const Unit *> initValues;
    for (const Unit &unit : units)
      if (unit.init)
        for (Value output : unit.outputs)
          initValues[output] = &unit;
    auto visit = [&](Value value) {
      auto it = initValues.find(value);
      if (it == initValues.end() || derived.count(value))
        return;
      std::string name = modelNode(value.getLoc());
      name += (name.empty() ? "derived_" : ".derived_") +
              std::to_string(derived.size());
      if (stage || function.getName() != "main")
        name = function.getName().str() + "." + name;
      derived[value] = state.parameters.addDerived(
          name, cast<RankedTensorType>(value.getType()), stage);
    };
    for (const Unit &unit : units)
      if (!unit.init)
        for (Value input : unit.inputs)
          visit(input);
    for (Value value : terminator()->getOperands())
      visit(value);
  }

  /// Kernels are numbered in the order in which they are emitted; calls name
  /// some before that.
  void numberKernels() {
    for (bool init : {true, false})
      if (!init || !derived.empty())
        for (const Unit &unit : units)
          if (unit.kind == Unit::Kind::Kernel && unit.init == init)
            kernelOf[unit.outputs.front()] = state.numKernels++;
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

  exec::FuncOp emitInit(StringRef name) {
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
    for (const Unit &unit : units)
      if (unit.init)
        emitUnit(unit);
    // An alias of something else is copied to where it is wanted.
    for (auto [i, entry] : llvm::enumerate(derived)) {
      Value value = entry.first, argument = op.getBody().getArgument(i);
      if (frame.buffers.lookup(value) != argument)
        exec::CopyOp::create(builder, value.getLoc(), buffer(value), argument);
    }
    inInit = false;
    exec::ReturnOp::create(builder, function.getLoc());
    return op;
  }

  exec::FuncOp emitForward(exec::Phase phase, StringRef name) {
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
      // A sum over micro-batches comes in where it goes out.
      if (auto result = function.getArgAttrOfType<IntegerAttr>(
              number, dist::kAccumulator))
        number = numInputs + result.getInt();
      frame.buffers[argument] = block.getArgument(number);
    }
    placeDestinations();
    placeResults(block, numInputs);
    for (const Unit &unit : units)
      if (!unit.init)
        emitUnit(unit);
    for (OpOperand &use : terminator()->getOpOperands()) {
      Value target = block.getArgument(numInputs + use.getOperandNumber());
      if (returned.lookup(use.getOperandNumber()) != target)
        exec::CopyOp::create(builder, terminator()->getLoc(), buffer(use.get()),
                             target);
    }
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      bool input = static_cast<int64_t>(i) < numInputs;
      auto label = input ? function.getArgAttr(i, "kerf.name")
                         : function.getResultAttr(i - numInputs, "kerf.name");
      if (label)
        op.setArgAttr(i, "kerf.name", label);
    }
    exec::ReturnOp::create(builder, function.getLoc());
    return op;
  }

  /// What is written directly over an old value.
  void placeDestinations() {
    for (const Destination &destination : destinations)
      if (destination.direct)
        frame.placed[destination.value] = buffer(destination.place);
  }

  /// A returned value is computed where the caller wants it, seen through
  /// reshapes; what is returned twice, or not computed here, is copied.
  void placeResults(Block &block, int64_t numInputs) {
    DenseSet<Value> computed, aliases;
    for (const Unit &unit : units)
      if (!unit.init)
        for (Value output : unit.outputs)
          (unit.kind == Unit::Kind::Alias ? aliases : computed).insert(output);
    for (OpOperand &use : terminator()->getOpOperands()) {
      Value value = use.get();
      while (aliases.contains(value) && value.getDefiningOp<nn::ReshapeOp>())
        value = value.getDefiningOp()->getOperand(0);
      if (auto wait = value.getDefiningOp<dist::WaitOp>())
        value = wait.getPending();
      Value target = block.getArgument(numInputs + use.getOperandNumber());
      if (frame.placed.lookup(value) == target)
        returned[use.getOperandNumber()] = target; // a sum in place
      if (!computed.contains(value) || frame.placed.count(value) ||
          accumulates(use.getOperandNumber()))
        continue;
      frame.placed[value] = target;
      returned[use.getOperandNumber()] = target;
    }
  }

  /// Whether a result lies where an argument does.
  bool accumulates(unsigned result) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto attr =
              function.getArgAttrOfType<IntegerAttr>(i, dist::kAccumulator))
        if (attr.getInt() == result)
          return true;
    return false;
  }

  /// Where a value lies; parameters are fetched when first asked for.
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

  /// A buffer for a value that is about to be computed, here or by what was
  /// offered to do it.
  Value target(Value value) {
    if (Value known = frame.offered.lookup(value))
      return frame.buffers[value] = known;
    Value result;
    if (Value place = frame.placed.lookup(value)) {
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

  void emitUnit(const Unit &unit) {
    switch (unit.kind) {
    case Unit::Kind::Kernel:
      return emitKernel(unit);
    case Unit::Kind::Library:
      return emitLibrary(unit);
    case Unit::Kind::Alias:
      return emitAlias(unit.ops.front());
    case Unit::Kind::Other:
      return emitOther(unit.ops.front());
    }
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

  void emitKernel(const Unit &unit) {
    int64_t index = kernelOf.lookup(unit.outputs.front());
    std::string name = kernelName(unit.ops, index);
    std::string node;
    for (Operation *op : llvm::reverse(unit.ops))
      if (node.empty())
        node = modelNode(op->getLoc());
    SmallVector<Type> inputTypes, outputTypes;
    for (Value value : unit.inputs)
      inputTypes.push_back(value.getType());
    for (Value value : unit.outputs)
      outputTypes.push_back(value.getType());
    Location loc = unit.ops.back()->getLoc();
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(frame.op);
      auto kernel = exec::KernelOp::create(
          builder, loc, builder.getStringAttr(name),
          TypeAttr::get(builder.getFunctionType(inputTypes, outputTypes)),
          ArrayAttr(), ArrayAttr(), builder.getI64IntegerAttr(index),
          builder.getStringAttr(node), IntegerAttr(), IntegerAttr(),
          phaseOf(loc), exec::GpuKernelAttr());
      Block *block = builder.createBlock(&kernel.getBody());
      IRMapping mapping;
      for (Value value : unit.inputs)
        mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
      builder.setInsertionPointToStart(block);
      for (Operation *op : unit.ops) {
        // Where the value lies does not matter inside a kernel.
        Operation *inside = builder.clone(*op, mapping);
        for (NamedAttribute attribute :
             llvm::to_vector(inside->getDiscardableAttrs()))
          inside->removeDiscardableAttr(attribute.getName());
      }
      SmallVector<Value> results;
      for (Value value : unit.outputs)
        results.push_back(mapping.lookup(value));
      exec::YieldOp::create(builder, loc, results);
    }
    SmallVector<Value> inputs, outputs;
    for (Value value : unit.inputs)
      inputs.push_back(buffer(value));
    for (Value value : unit.outputs)
      outputs.push_back(target(value));
    exec::LaunchOp::create(builder, loc,
                           FlatSymbolRefAttr::get(builder.getContext(), name),
                           inputs, outputs);
  }

  /// What a call reads of a base: its buffer, or the weight that it is.
  Value operandOf(const LibraryCall &call, Value base, bool packed) {
    using Kind = LibraryCall::Kind;
    Operation *def = base.getDefiningOp();
    // What a step writes, and what calls of our own read, is a buffer.
    bool plain =
        call.kind == Kind::ScatterAdd || call.kind == Kind::MaxPoolGradient ||
        call.kind == Kind::AvgPoolGradient || call.kind == Kind::Attention ||
        call.kind == Kind::AttentionGradient || isMutableSource(def);
    if (plain)
      return buffer(base);
    int64_t index;
    if (isa_and_nonnull<SourceOpInterface>(def)) {
      index = state.parameters.get(def, stage, packed, inInit);
    } else if (auto it = derived.find(base); it != derived.end()) {
      index = it->second;
      state.parameters.use(index, packed);
    } else {
      return buffer(base);
    }
    Value &weight = frame.weights[base];
    if (!weight) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&frame.op.getBody().front());
      MemRefType type = bufferType(base.getType());
      weight = exec::WeightOp::create(
          builder, base.getLoc(),
          exec::WeightType::get(builder.getContext(), type.getShape(),
                                type.getElementType()),
          builder.getI64IntegerAttr(index));
    }
    return weight;
  }

  void emitLibrary(const Unit &unit) {
    const LibraryCall &call = *unit.call;
    auto read = [&](Value base, bool packed) {
      return operandOf(call, base, packed);
    };
    auto write = [&](Value value) { return target(value); };
    exec::LibraryCallInterface emitted =
        emitLibraryCall(builder, call, state.numLibrary, {read, write});
    if (unit.offer)
      offerSums(*unit.offer, cast<exec::MatmulOp>(emitted.getOperation()));
    if (unit.mask)
      offerMask(*unit.mask, call, cast<exec::MatmulOp>(emitted.getOperation()));
    libraryOf[call.result] = state.numLibrary++;
  }

  /// The product could write the sums that a kernel computes.
  void offerSums(const Unit::Offer &offer, exec::MatmulOp product) {
    Value sums = offer.value;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(product);
    // The kernel may stand behind the call, whose buffer it then is.
    if (!frame.buffers.lookup(sums))
      frame.offered[sums] = target(sums);
    product.getSumsMutable().assign(buffer(sums));
    product.setBiasGradientAttr(exec::BiasGradientAttr::get(
        builder.getContext(), offer.ofRhs ? exec::Side::Rhs : exec::Side::Lhs,
        offer.parts, kernelOf.lookup(sums)));
  }

  /// The product could do what a kernel does in place over its result.
  void offerMask(const Unit::Mask &mask, const LibraryCall &call,
                 exec::MatmulOp product) {
    auto forward = libraryOf.find(mask.forward);
    if (forward == libraryOf.end() || frame.placed.count(call.result) ||
        frame.placed.count(mask.result))
      return;
    // In place, whoever does it.
    Value dst = product.getDst();
    MemRefType type = bufferType(mask.result.getType());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(product);
    frame.offered[mask.result] =
        dst.getType() == type
            ? dst
            : exec::ViewOp::create(builder, product.getLoc(), type, dst, 0)
                  .getResult();
    product.setReluGradientAttr(exec::ReluGradientAttr::get(
        builder.getContext(), forward->second, kernelOf.lookup(mask.result)));
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
      const auto *destination =
          llvm::find_if(destinations, [&](const Destination &destination) {
            return destination.assign == op;
          });
      if (!destination->direct)
        exec::CopyOp::create(builder, loc, buffer(assign.getValue()),
                             buffer(assign.getSource()));
      return;
    }
    failedOnce = true;
    op->emitError("cannot be lowered: ") << op->getName();
  }

  func::FuncOp function;
  int64_t stage;
  ProgramState &state;
  OpBuilder builder;
  std::vector<Unit> units;
  SmallVector<Destination> destinations;
  llvm::MapVector<Value, int64_t> derived;
  DenseMap<unsigned, Value> returned;
  DenseMap<Value, int64_t> kernelOf;  ///< by the first output
  DenseMap<Value, int64_t> libraryOf; ///< calls emitted so far
  Frame frame;
  bool inInit = false, failedOnce = false;
  /// Collectives under way in one group: what the runtime has room for
  /// (KERF_MAX_STARTED) but one, which is waited for at once.
  static constexpr int64_t maxStarted = 15;
  int64_t numStarted = 0;
};
} // namespace

FailureOr<EmittedFunction> kerf::emitFunction(func::FuncOp function,
                                              int64_t stage, exec::Phase phase,
                                              StringRef name,
                                              ProgramState &state) {
  return Emitter(function, stage, state).emit(phase, name);
}
