//===- BufferizeModule.cpp - a module of tensor functions to exec ---------===//
//
// Takes a module whose functions are on local shapes (after the collectives
// phase, or one unpartitioned @main). Functions become exec functions;
// dist.schedule, dist.channel and the declaration of @main become stages,
// channels and the program's inputs and outputs. A module without schedules is
// one stage that runs @main once.
//
//===----------------------------------------------------------------------===//
#include "Bufferize.h"

#include "../Calls.h"
#include "../OpKinds.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

namespace kerf {
#define GEN_PASS_DEF_BUFFERIZE
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// The range from which random integers of an input are drawn; null if unknown.
static DenseI64ArrayAttr rangeOf(func::FuncOp main, unsigned i) {
  for (StringRef name : {kSampleRangeAttr, kRangeAttr}) {
    auto given = main.getArgAttrOfType<ArrayAttr>(i, name);
    if (!given)
      continue;
    SmallVector<int64_t> range;
    for (auto bound : given.getAsRange<IntegerAttr>())
      range.push_back(bound.getInt());
    return DenseI64ArrayAttr::get(main.getContext(), range);
  }
  return {};
}

/// Adds the model's input or output number `i`.
static void addBoundary(OpBuilder &builder, func::FuncOp main, bool input,
                        unsigned i) {
  auto attribute = [&](StringRef key) {
    return input ? main.getArgAttr(i, key) : main.getResultAttr(i, key);
  };
  auto global = cast<RankedTensorType>(input ? main.getArgumentTypes()[i]
                                             : main.getResultTypes()[i]);
  RankedTensorType local = global;
  auto sharding =
      dyn_cast_or_null<dist::ShardingAttr>(attribute(dist::kSharding));
  if (sharding) {
    auto layout = sharding.toLayout(dist::getMesh(main).toMesh());
    local = dist::localType(global, llvm::cantFail(std::move(layout)));
  }
  auto name = dyn_cast_or_null<StringAttr>(attribute(kNameAttr));
  if (!name)
    name = builder.getStringAttr((input ? "input_" : "output_") + Twine(i));
  IntegerAttr index = builder.getI64IntegerAttr(i);
  TypeAttr whole = TypeAttr::get(global), part = TypeAttr::get(local);
  if (input)
    exec::ModelInputOp::create(builder, main.getLoc(), index, name, whole, part,
                               sharding, rangeOf(main, i));
  if (input)
    return;
  auto output = exec::ModelOutputOp::create(builder, main.getLoc(), index, name,
                                            whole, part, sharding);
  for (StringRef key : {kBoundedAttr, kLengthAttr})
    if (Attribute given = attribute(key))
      output->setAttr(key, given);
}

namespace {
/// Slots and instructions of one stage.
class StageBuilder {
public:
  StageBuilder(OpBuilder &builder, Location loc, int64_t index)
      : loc(loc), slots(builder), instructions(builder) {
    auto stage =
        exec::StageOp::create(builder, loc, builder.getI64IntegerAttr(index),
                              IntegerAttr(), IntegerAttr());
    body = builder.createBlock(&stage.getBody());
    builder.setInsertionPointAfter(stage);
    instructions.setInsertionPointToEnd(body);
  }

  /// Slots come before all instructions.
  Value addSlot(StringRef name, Type type) {
    if (last)
      slots.setInsertionPointAfter(last);
    else
      slots.setInsertionPointToStart(body);
    auto tensor = cast<RankedTensorType>(type);
    auto slot = exec::SlotOp::create(
        slots, loc, MemRefType::get(tensor.getShape(), tensor.getElementType()),
        slots.getStringAttr(name), IntegerAttr());
    last = slot;
    return slot.getResult();
  }

  template <typename Op, typename... Arguments>
  void add(Arguments &&...arguments) {
    Op::create(instructions, loc, std::forward<Arguments>(arguments)...);
  }

private:
  Location loc;
  Block *body;
  Operation *last = nullptr; ///< slot
  OpBuilder slots, instructions;
};
} // namespace

static std::string slotName(func::FuncOp function, bool input, unsigned i) {
  auto name = input ? function.getArgAttrOfType<StringAttr>(i, kNameAttr)
                    : function.getResultAttrOfType<StringAttr>(i, kNameAttr);
  return name ? name.getValue().str()
              : ((input ? "argument_" : "result_") + Twine(i)).str();
}

static void buildSingleStage(OpBuilder &builder, func::FuncOp main,
                             StringRef name) {
  StageBuilder stage(builder, main.getLoc(), 0);
  SmallVector<Value> slots;
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
    slots.push_back(stage.addSlot(slotName(main, true, i), type));
    stage.add<exec::InputOp>(i, slots.back(), 0, dist::ShardingAttr());
  }
  for (auto [i, type] : llvm::enumerate(main.getResultTypes()))
    slots.push_back(stage.addSlot(slotName(main, false, i), type));
  stage.add<exec::RunOp>(name, slots, 0);
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    stage.add<exec::OutputOp>(slots[main.getNumArguments() + i], i, 0);
}

static void
buildStage(OpBuilder &builder, dist::ScheduleOp schedule,
           const llvm::StringMap<SmallVector<int64_t>> &accumulatorsOf) {
  StageBuilder stage(builder, schedule.getLoc(), schedule.getStage());
  DenseMap<Value, Value> slotOf;
  auto define = [&](Value value, StringRef name) {
    return slotOf[value] = stage.addSlot(name, value.getType());
  };
  for (Operation &op : schedule.getBody().front())
    llvm::TypeSwitch<Operation *>(&op)
        .Case<dist::InputOp>([&](dist::InputOp input) {
          stage.add<exec::InputOp>(
              input.getIndex(), define(input.getResult(), "input"),
              input.getMicroBatch(),
              input->getAttrOfType<dist::ShardingAttr>(dist::kSharding));
        })
        .Case<dist::RecvOp>([&](dist::RecvOp recv) {
          stage.add<exec::RecvOp>(define(recv.getResult(), "received"),
                                  recv.getChannel(), recv.getMicroBatch());
        })
        .Case<dist::ZeroOp>([&](dist::ZeroOp zero) {
          stage.add<exec::ZeroOp>(define(zero.getResult(), "sum"));
        })
        .Case<dist::RunOp>([&](dist::RunOp run) {
          SmallVector<Value> slots;
          for (Value operand : run.getOperands())
            slots.push_back(slotOf.lookup(operand));
          ArrayRef<int64_t> sums = accumulatorsOf.find(run.getCallee())->second;
          for (auto [i, result] : llvm::enumerate(run.getResults())) {
            if (sums[i] < 0)
              slots.push_back(define(result, "result"));
            else
              slots.push_back(slotOf[result] = slots[sums[i]]);
          }
          stage.add<exec::RunOp>(run.getCallee(), slots, run.getMicroBatch());
        })
        .Case<dist::SendOp>([&](dist::SendOp send) {
          stage.add<exec::SendOp>(
              slotOf.lookup(send.getX()), send.getChannelAttr(),
              send.getMicroBatchAttr(), send.getHeldUntilAttr());
        })
        .Case<dist::OutputOp>([&](dist::OutputOp output) {
          stage.add<exec::OutputOp>(slotOf.lookup(output.getX()),
                                    output.getIndex(), output.getMicroBatch());
        });
}

static void addChannel(OpBuilder &builder, dist::ChannelOp channel) {
  auto type = cast<RankedTensorType>(channel.getType());
  MLIRContext *context = channel.getContext();
  exec::ChannelOp::create(
      builder, channel.getLoc(), channel.getNumberAttr(),
      builder.getStringAttr(modelNode(channel.getLoc())), channel.getFromAttr(),
      channel.getToAttr(),
      dist::PurposeAttr::get(
          context, channel.getPurpose().value_or(dist::Purpose::Activation)),
      exec::PhaseAttr::get(
          context, toPhase(channel.getPhase().value_or(dist::Phase::Forward))),
      TypeAttr::get(MemRefType::get(type.getShape(), type.getElementType())));
}

static LogicalResult bufferize(ModuleOp module) {
  auto main = dist::findEntry(module);
  if (!main)
    return module.emitError("has no function to lower");
  MLIRContext *context = module.getContext();
  // Inputs and outputs come before the functions.
  OpBuilder builder(context);
  builder.setInsertionPointToStart(module.getBody());
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    addBoundary(builder, main, true, i);
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    addBoundary(builder, main, false, i);
  if (dist::MeshAttr mesh = dist::getMesh(module))
    module->setAttr(exec::kMesh, mesh);
  SmallVector<dist::ChannelOp> channels(module.getOps<dist::ChannelOp>());
  llvm::sort(channels, [](dist::ChannelOp a, dist::ChannelOp b) {
    return a.getNumber() < b.getNumber();
  });
  for (dist::ChannelOp channel : channels)
    addChannel(builder, channel);

  ProgramState state(module);
  SmallVector<dist::ScheduleOp> schedules(module.getOps<dist::ScheduleOp>());
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  llvm::StringMap<SmallVector<int64_t>> accumulatorsOf;
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    accumulatorsOf[function.getName()] = accumulators(function);
    int64_t stage = dist::findStage(function).value_or(0);
    exec::Phase phase = toPhase(dist::getPhase(function));
    std::string name =
        function == main ? "stage0_forward" : function.getName().str();
    // The exec function needs the symbol: erase the old function first.
    if (name == function.getName())
      function.setName(name + ".tensors");
    if (failed(bufferizeFunction(function, stage, phase, name, state)))
      return failure();
    if (function == main) {
      builder.setInsertionPointToEnd(module.getBody());
      buildSingleStage(builder, main, name);
    }
  }
  builder.setInsertionPointToEnd(module.getBody());
  for (dist::ScheduleOp schedule : schedules)
    buildStage(builder, schedule, accumulatorsOf);
  int64_t numStages = std::max<size_t>(schedules.size(), 1);
  builder.setInsertionPointToStart(module.getBody());
  state.parameters.separateInits();
  state.parameters.emit(builder, numStages);
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (isa<func::FuncOp>(op) || isa<dist::DistDialect>(op.getDialect()))
      op.erase();
  return success();
}

namespace {
struct Bufferize : kerf::impl::BufferizeBase<Bufferize> {
  void runOnOperation() override {
    if (failed(bufferize(getOperation())))
      signalPassFailure();
  }
};
} // namespace
