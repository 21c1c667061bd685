//===- Lower.cpp - a module of tensor functions to exec -------------------===//
//
// See Lower.h. Functions become exec functions; dist.schedule, dist.channel and
// the declaration of @main become stages, slots and the manifest's inputs and
// outputs. A module without schedules is one stage that runs @main once.
//
//===----------------------------------------------------------------------===//
#include "kerf/Lower/Lower.h"

#include "Calls.h"
#include "Dict.h"
#include "EmitFunction.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;

/// The bounds of what an input selects by, [0, n), if a gather reads it.
static Attribute indexRange(Value value) {
  for (Operation *user : value.getUsers()) {
    if (auto gather = dyn_cast<nn::GatherOp>(user);
        gather && gather.getIndices() == value)
      return Builder(value.getContext())
          .getI64ArrayAttr(
              {0, gather.getData().getType().getDimSize(gather.getDim())});
    if (isShapeOp(user) || isa<nn::CastOp>(user))
      if (Attribute range = indexRange(user->getResult(0)))
        return range;
  }
  return {};
}

/// Entry of the manifest's inputs or outputs.
static DictionaryAttr ioEntry(func::FuncOp main, bool input, unsigned i) {
  auto attribute = [&](StringRef key) {
    return input ? main.getArgAttr(i, key) : main.getResultAttr(i, key);
  };
  auto global = cast<RankedTensorType>(input ? main.getArgumentTypes()[i]
                                             : main.getResultTypes()[i]);
  RankedTensorType local = global;
  Attribute sharding = attribute(dist::kSharding);
  if (auto given = dyn_cast_or_null<dist::ShardingAttr>(sharding)) {
    auto layout = given.toLayout(dist::getMesh(main).toMesh());
    local = dist::localType(global, llvm::cantFail(std::move(layout)));
  }
  Dict entry(main.getContext());
  auto name = dyn_cast_or_null<StringAttr>(attribute("kerf.name"));
  entry.set("name",
            name ? name.getValue().str().c_str()
                 : ((input ? "input_" : "output_") + Twine(i)).str().c_str());
  entry.set("dtype", exec::dtypeName(global.getElementType()))
      .set("global_shape", global.getShape())
      .set("local_shape", local.getShape())
      .set("sharding", shardingEntry(main, sharding, global.getRank()));
  if (ArrayRef blocks = blocksOf(sharding); !blocks.empty())
    entry.set("blocks", blocks);
  if (input && global.getElementType().isInteger() &&
      !global.getElementType().isInteger(1)) {
    Attribute range = attribute("kerf.range");
    if (!range && !main.isExternal())
      range = indexRange(main.getArgument(i));
    if (range)
      entry.set("range", range);
  }
  return entry.get();
}

namespace {
/// Slots and instructions of one stage.
class StageBuilder {
public:
  explicit StageBuilder(MLIRContext *context) : context(context) {}

  void addZero(int64_t slot) {
    instructions.push_back(Dict(context).set("zero", slot).get());
  }

  int64_t addSlot(StringRef name, Type type) {
    auto tensor = cast<RankedTensorType>(type);
    slots.push_back(Dict(context)
                        .set("name", name)
                        .set("bytes", exec::sizeBytes(tensor))
                        .get());
    return slots.size() - 1;
  }

  /// The slot stays as it is until that instruction (planArenas).
  void holdSlot(int64_t slot, int64_t until) {
    NamedAttrList entry(cast<DictionaryAttr>(slots[slot]));
    if (auto known = dyn_cast_or_null<IntegerAttr>(entry.get("held_until")))
      until = std::max(until, known.getInt());
    entry.set("held_until",
              IntegerAttr::get(IntegerType::get(context, 64), until));
    slots[slot] = entry.getDictionary(context);
  }

  void add(StringRef key, int64_t number, int64_t slot, int64_t microBatch,
           ArrayAttr sharding = {}, ArrayRef<int64_t> blocks = {}) {
    Dict instruction(context);
    instruction.set(key, number)
        .set("slot", slot)
        .set("micro_batch", microBatch);
    if (sharding)
      instruction.set("sharding", sharding);
    if (!blocks.empty())
      instruction.set("blocks", blocks);
    instructions.push_back(instruction.get());
  }

  void addRun(StringRef function, ArrayRef<int64_t> used, int64_t microBatch) {
    instructions.push_back(
        Dict(context)
            .set("run", FlatSymbolRefAttr::get(context, function))
            .set("slots", used)
            .set("micro_batch", microBatch)
            .get());
  }

  void emit(OpBuilder &builder, Location loc, int64_t index) {
    exec::StageOp::create(builder, loc, builder.getI64IntegerAttr(index),
                          builder.getArrayAttr(slots),
                          builder.getArrayAttr(instructions), IntegerAttr(),
                          IntegerAttr());
  }

private:
  MLIRContext *context;
  SmallVector<Attribute> slots, instructions;
};
} // namespace

static std::string slotName(func::FuncOp function, bool input, unsigned i) {
  auto name = input ? function.getArgAttrOfType<StringAttr>(i, "kerf.name")
                    : function.getResultAttrOfType<StringAttr>(i, "kerf.name");
  return name ? name.getValue().str()
              : ((input ? "argument_" : "result_") + Twine(i)).str();
}

static void buildSingleStage(OpBuilder &builder, func::FuncOp main,
                             StringRef name) {
  StageBuilder stage(builder.getContext());
  SmallVector<int64_t> slots;
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
    slots.push_back(stage.addSlot(slotName(main, true, i), type));
    stage.add("input", i, slots.back(), 0);
  }
  for (auto [i, type] : llvm::enumerate(main.getResultTypes()))
    slots.push_back(stage.addSlot(slotName(main, false, i), type));
  stage.addRun(name, slots, 0);
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    stage.add("output", i, slots[main.getNumArguments() + i], 0);
  stage.emit(builder, main.getLoc(), 0);
}

/// For each result of a function the argument that it is a sum into, or -1.
static SmallVector<int64_t> accumulators(func::FuncOp function) {
  SmallVector<int64_t> arguments(function.getNumResults(), -1);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto result =
            function.getArgAttrOfType<IntegerAttr>(i, dist::kAccumulator))
      arguments[result.getInt()] = i;
  return arguments;
}

static void
buildStage(OpBuilder &builder, dist::ScheduleOp schedule,
           const llvm::StringMap<SmallVector<int64_t>> &accumulatorsOf) {
  StageBuilder stage(builder.getContext());
  DenseMap<Value, int64_t> slotOf;
  auto define = [&](Value value, StringRef name) {
    return slotOf[value] = stage.addSlot(name, value.getType());
  };
  for (Operation &op : schedule.getBody().front())
    llvm::TypeSwitch<Operation *>(&op)
        .Case<dist::InputOp>([&](dist::InputOp input) {
          int64_t slot = define(input.getResult(), "input");
          stage.add("input", input.getIndex(), slot, input.getMicroBatch(),
                    input->getAttrOfType<dist::ShardingAttr>(dist::kSharding)
                        ? shardingEntry(
                              input, input->getAttr(dist::kSharding),
                              cast<RankedTensorType>(input.getType()).getRank())
                        : ArrayAttr(),
                    blocksOf(input->getAttr(dist::kSharding)));
        })
        .Case<dist::RecvOp>([&](dist::RecvOp recv) {
          int64_t slot = define(recv.getResult(), "received");
          stage.add("recv", recv.getChannel(), slot, recv.getMicroBatch());
        })
        .Case<dist::ZeroOp>([&](dist::ZeroOp zero) {
          stage.addZero(define(zero.getResult(), "sum"));
        })
        .Case<dist::RunOp>([&](dist::RunOp run) {
          SmallVector<int64_t> slots;
          for (Value operand : run.getOperands())
            slots.push_back(slotOf.lookup(operand));
          ArrayRef<int64_t> sums = accumulatorsOf.find(run.getCallee())->second;
          for (auto [i, result] : llvm::enumerate(run.getResults())) {
            if (sums[i] < 0)
              slots.push_back(define(result, "result"));
            else
              slots.push_back(slotOf[result] = slots[sums[i]]);
          }
          stage.addRun(run.getCallee(), slots, run.getMicroBatch());
        })
        .Case<dist::SendOp>([&](dist::SendOp send) {
          stage.add("send", send.getChannel(), slotOf.lookup(send.getX()),
                    send.getMicroBatch());
          if (auto until = op.getAttrOfType<IntegerAttr>(dist::kHeldUntil))
            stage.holdSlot(slotOf.lookup(send.getX()), until.getInt());
        })
        .Case<dist::OutputOp>([&](dist::OutputOp output) {
          stage.add("output", output.getIndex(), slotOf.lookup(output.getX()),
                    output.getMicroBatch());
        });
  stage.emit(builder, schedule.getLoc(), schedule.getStage());
}

static DictionaryAttr channelEntry(dist::ChannelOp channel) {
  auto type = cast<RankedTensorType>(channel.getType());
  std::string node = modelNode(channel.getLoc());
  return Dict(channel.getContext())
      .set("from_stage", static_cast<int64_t>(channel.getFrom()))
      .set("to_stage", static_cast<int64_t>(channel.getTo()))
      .set("dtype", exec::dtypeName(type.getElementType()))
      .set("shape", type.getShape())
      .set("bytes", exec::sizeBytes(type))
      .set("tensor", StringRef(node))
      .set("node", StringRef(node))
      .set("purpose", dist::stringifyPurpose(channel.getPurpose().value_or(
                          dist::Purpose::Activation)))
      .set("phase", stringifyPhase(toPhase(channel.getPhaseAttr())))
      .get();
}

LogicalResult kerf::lowerToExec(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return module.emitError("has no function @main");
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> inputs, outputs, channels;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    inputs.push_back(ioEntry(main, true, i));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    outputs.push_back(ioEntry(main, false, i));
  module->setAttr("exec.inputs", ArrayAttr::get(context, inputs));
  module->setAttr("exec.outputs", ArrayAttr::get(context, outputs));
  if (dist::MeshAttr mesh = dist::getMesh(module))
    module->setAttr(exec::kMesh, mesh);
  SmallVector<dist::ChannelOp> channelOps(module.getOps<dist::ChannelOp>());
  llvm::sort(channelOps, [](dist::ChannelOp a, dist::ChannelOp b) {
    return a.getNumber() < b.getNumber();
  });
  for (dist::ChannelOp channel : channelOps)
    channels.push_back(channelEntry(channel));
  module->setAttr("exec.channels", ArrayAttr::get(context, channels));

  OpBuilder builder(context);
  ProgramState state(module);
  SmallVector<dist::ScheduleOp> schedules(module.getOps<dist::ScheduleOp>());
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  llvm::StringMap<SmallVector<int64_t>> accumulatorsOf;
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    accumulatorsOf[function.getName()] = accumulators(function);
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError("has more than one block");
    int64_t stage = 0;
    if (auto attr = function->getAttrOfType<IntegerAttr>(dist::kStage))
      stage = attr.getInt();
    StringRef phase = stringifyPhase(toPhase(function->getAttr(dist::kPhase)));
    std::string name = function.getName() == "main" ? "stage0_forward"
                                                    : function.getName().str();
    // The symbol is free for the exec function only once it is gone.
    if (name == function.getName())
      function.setName(name + ".tensors");
    if (failed(emitFunction(function, stage, phase, name, state)))
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
  state.parameters.emit(builder, numStages);
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (isa<func::FuncOp>(op) || isa<dist::DistDialect>(op.getDialect()))
      op.erase();
  return success();
}
