//===- BuildSchedule.cpp - the instruction list of every stage ------------===//
//
// The order of work comes from lib/Cost (the same lists that the planner
// simulated), between the prologue and the update. This pass turns it into
// instructions on tensors: inputs and receives before a function runs, sends
// and outputs after it. A slot (a received value, a value kept of a
// micro-batch, a sum so far) is made once and used by all functions of the
// stage that name it.
//
// No list can deadlock: a receive stands before the first run that needs it, a
// send right after the run that gives it, and the runs alone have an order in
// which all can go (levels of the prologue, the simulated pipeline, levels of
// the update). How long a slot that is sent must stay is found by
// kerf-hold-sends.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Schedule.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace kerf {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

bool runsOnce(func::FuncOp function) {
  return dist::runsOncePerStep(getPhase(function));
}

/// How often a channel is used: once per step, or for each micro-batch.
struct ChannelUse {
  bool sentOnce = false, takenPerMicroBatch = false;
  bool isPerMicroBatch() const { return !sentOnce && takenPerMicroBatch; }
};

/// The functions of one stage, in the order of a step; those of micro-batches
/// by chunk, null where there is none.
struct StageFunctions {
  SmallVector<func::FuncOp> prologue, update, forward, backward;

  func::FuncOp first() const {
    for (const auto *list : {&prologue, &forward, &backward, &update})
      for (func::FuncOp function : *list)
        if (function)
          return function;
    llvm_unreachable("a stage without functions");
  }
  func::FuncOp of(const cost::Instruction &instruction) const {
    const auto &list =
        instruction.phase == cost::Phase::Forward ? forward : backward;
    auto chunk = static_cast<size_t>(instruction.chunk);
    return chunk < list.size() ? list[chunk] : func::FuncOp();
  }
};

class StageSchedule {
public:
  StageSchedule(OpBuilder &builder, func::FuncOp main, const Mesh &mesh,
                const std::map<int64_t, ChannelUse> &channels)
      : builder(builder), main(main), mesh(mesh), channels(channels),
        last(mesh.numMicroBatches() - 1) {}

  void run(func::FuncOp function, int64_t microBatch) {
    loc = function.getLoc();
    bool once = runsOnce(function);
    SmallVector<Value> operands;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      operands.push_back(operand(function, i, once, microBatch));
    auto run = RunOp::create(builder, *loc, function.getResultTypes(),
                             function.getName(), operands, microBatch);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (int64_t number : keepsOf(function, i))
        kept[{number, once ? -1 : microBatch}] = run.getResult(i);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto result = numberFrom(function, i, From::Accumulator))
        sums[{function, i}] = run.getResult(*result);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (int64_t channel : sendsOf(function, i))
        if (channels.at(channel).isPerMicroBatch() || once ||
            microBatch == last)
          SendOp::create(builder, *loc, run.getResult(i), channel, microBatch,
                         purposes.lookup(channel), IntegerAttr());
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (once || microBatch == 0 ||
          varies(function.getResultAttr(i, kSharding)))
        for (int64_t output : outputsOf(function, i))
          OutputOp::create(builder, *loc, run.getResult(i), output, microBatch);
  }

  llvm::DenseMap<int64_t, PurposeAttr> purposes;

private:
  bool varies(Attribute sharding) {
    return variesOverTime(
        llvm::cantFail(cast<ShardingAttr>(sharding).toLayout(mesh)), mesh);
  }

  Value operand(func::FuncOp function, unsigned i, bool once,
                int64_t microBatch) {
    Type type = function.getArgumentTypes()[i];
    if (std::optional<int64_t> number = numberFrom(function, i, From::Recv)) {
      int64_t channel = *number;
      const ChannelUse &use = channels.at(channel);
      // The update uses the last micro-batch of a value that each micro-batch
      // makes.
      int64_t which = use.sentOnce ? 0 : once ? last : microBatch;
      Value &slot = received[{channel, which}];
      if (!slot)
        slot = RecvOp::create(builder, *loc, type, channel, which,
                              purposes.lookup(channel));
      return slot;
    }
    if (std::optional<int64_t> number = numberFrom(function, i, From::Kept)) {
      auto found = kept.find({*number, -1});
      if (found == kept.end())
        found = kept.find({*number, once ? last : microBatch});
      assert(found != kept.end() && "kept before it is made");
      return found->second;
    }
    if (numberFrom(function, i, From::Accumulator)) {
      Value &sum = sums[{function, i}];
      if (!sum)
        sum = ZeroOp::create(builder, *loc, type);
      return sum;
    }
    // Inputs that are the same for all micro-batches are read once.
    Attribute sharding = function.getArgAttr(i, kSharding);
    int64_t index = *numberFrom(function, i, From::Input);
    if (varies(sharding))
      return InputOp::create(builder, *loc, type, index, microBatch);
    Value &slot = inputs[{index, type.getAsOpaquePointer()}];
    if (!slot) {
      auto input = InputOp::create(builder, *loc, type, index, microBatch);
      if (sharding != main.getArgAttr(index, kSharding))
        input->setAttr(kSharding, sharding);
      slot = input;
    }
    return slot;
  }

  OpBuilder &builder;
  func::FuncOp main;
  const Mesh &mesh;
  const std::map<int64_t, ChannelUse> &channels;
  int64_t last;
  std::optional<Location> loc;
  /// By (number, micro-batch); -1 for values that are made once.
  std::map<std::pair<int64_t, int64_t>, Value> received, kept;
  std::map<std::pair<int64_t, const void *>, Value> inputs;
  llvm::DenseMap<std::pair<Operation *, unsigned>, Value> sums;
};

struct BuildSchedule : kerf::impl::BuildScheduleBase<BuildSchedule> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr attribute = getMesh(module);
    if (!attribute)
      return;
    Mesh mesh = attribute.toMesh();
    std::map<int64_t, StageFunctions> stages;
    std::map<int64_t, ChannelUse> channels;
    bool backward = false;
    for (auto function : module.getOps<func::FuncOp>())
      if (getPart(function) && !function.isExternal()) {
        add(stages[getStage(function)], function);
        lookAt(function, channels);
        backward |= !stages[getStage(function)].backward.empty();
      }
    int64_t numStages = stages.empty() ? 1 : stages.rbegin()->first + 1;
    cost::ScheduleKind kind = kindOf(module, backward);
    bool isInterleaved = kind == cost::ScheduleKind::Interleaved;
    if (isInterleaved && mesh.numMicroBatches() % numStages != 0) {
      module.emitError("partition: ")
          << mesh.numMicroBatches() << " micro-batches, expected a multiple of "
          << numStages << " stages";
      return signalPassFailure();
    }
    cost::Schedule order =
        cost::buildSchedule(kind, numStages, mesh.numMicroBatches(),
                            isInterleaved ? getNumChunks(module) : 1);
    for (auto &[stage, functions] : stages)
      build(stage, functions, order[stage], mesh, channels);
  }

private:
  static cost::ScheduleKind kindOf(ModuleOp module, bool backward) {
    auto planned =
        module->getAttrOfType<dist::ScheduleKindAttr>(dist::kScheduleKind);
    auto kind = planned ? planned.getValue() : dist::ScheduleKind::OneFOneB;
    if (kind == dist::ScheduleKind::Interleaved)
      return cost::ScheduleKind::Interleaved;
    if (!backward)
      return cost::ScheduleKind::Forward;
    return kind == dist::ScheduleKind::GPipe ? cost::ScheduleKind::GPipe
                                             : cost::ScheduleKind::OneFOneB;
  }

  static void add(StageFunctions &stage, func::FuncOp function) {
    auto set = [&](SmallVector<func::FuncOp> &list) {
      auto chunk = static_cast<size_t>(getChunk(function));
      if (list.size() <= chunk)
        list.resize(chunk + 1);
      list[chunk] = function;
    };
    switch (getPhase(function)) {
    case Phase::Prologue:
      return stage.prologue.push_back(function);
    case Phase::Update:
      return stage.update.push_back(function);
    case Phase::Forward:
      return set(stage.forward);
    case Phase::BackwardInput:
    case Phase::BackwardWeight:
      return set(stage.backward);
    }
  }

  static void lookAt(func::FuncOp function,
                     std::map<int64_t, ChannelUse> &channels) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (int64_t channel : sendsOf(function, i))
        channels[channel].sentOnce = runsOnce(function);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto channel = numberFrom(function, i, From::Recv))
        channels[*channel].takenPerMicroBatch |= !runsOnce(function);
  }

  void build(int64_t stage, const StageFunctions &functions,
             const std::vector<cost::Instruction> &order, const Mesh &mesh,
             const std::map<int64_t, ChannelUse> &channels) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(getOperation().getBody());
    auto schedule =
        ScheduleOp::create(builder, functions.first().getLoc(), stage);
    builder.createBlock(&schedule.getBody());
    StageSchedule list(builder, dist::findEntry(getOperation()), mesh,
                       channels);
    for (auto channel : getOperation().getOps<ChannelOp>())
      list.purposes[channel.getNumber()] = channel.getPurposeAttr();
    for (func::FuncOp function : functions.prologue)
      list.run(function, 0);
    for (const cost::Instruction &instruction : order)
      if (func::FuncOp function = functions.of(instruction))
        list.run(function, instruction.microBatch);
    for (func::FuncOp function : functions.update)
      list.run(function, 0);
  }
};

} // namespace
