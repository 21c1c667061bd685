//===- SplitStages.cpp - one function per stage ---------------------------===//
//
// Ops are moved by their dist.stage. A value that a later stage uses crosses on
// a channel, one per (value, receiving stage), straight from its producer even
// over several stages. Sources do not cross: they are cloned into each stage
// that uses them (tied weights). Linear in the ops and their operands.
//
//===----------------------------------------------------------------------===//
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace kerf {
#define GEN_PASS_DEF_SPLITSTAGES
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

/// What a stage's function takes and gives, beyond its ops.
struct StageEnds {
  llvm::MapVector<Value, NamedAttrList> arguments;
  llvm::MapVector<Value, std::pair<SmallVector<int64_t>, SmallVector<int64_t>>>
      results; ///< outputs, channels
};

struct SplitStages : kerf::impl::SplitStagesBase<SplitStages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    Mesh mesh = getMesh(module).toMesh();
    int64_t numStages = 1;
    if (auto axis = mesh.find(kStageAxis))
      numStages = mesh.axes[*axis].size;
    std::vector<StageEnds> stages(numStages);
    collectArguments(main, stages);
    collectResults(main, stages);
    OpBuilder builder(main);
    builder.setInsertionPointAfter(main);
    for (auto [stage, ends] : llvm::enumerate(stages))
      buildStage(builder, main, stage, ends);
    main.eraseBody();
    main.setPrivate();
  }

private:
  static bool isSource(Value value) {
    return isa_and_nonnull<SourceOpInterface>(value.getDefiningOp());
  }
  static int64_t stageOf(Value value) {
    Operation *producer = value.getDefiningOp();
    return producer && !isSource(value) ? getStage(producer) : 0;
  }

  void collectArguments(func::FuncOp main, std::vector<StageEnds> &stages) {
    OpBuilder builder(main);
    int64_t numChannels = 0;
    auto use = [&](Value value, int64_t stage) {
      if (isSource(value))
        return;
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument && stageOf(value) == stage)
        return;
      auto [it, added] = stages[stage].arguments.insert({value, {}});
      if (!added)
        return;
      NamedAttrList &attributes = it->second;
      if (argument) {
        if (auto all = main.getArgAttrDict(argument.getArgNumber()))
          attributes.append(all.getValue());
        attributes.set("dist.input",
                       builder.getI64IntegerAttr(argument.getArgNumber()));
        return;
      }
      attributes.set(kSharding, getSharding(value));
      attributes.set("dist.recv", builder.getI64IntegerAttr(numChannels));
      ChannelOp::create(builder, value.getLoc(), numChannels, stageOf(value),
                        stage, value.getType(), PurposeAttr(), PhaseAttr());
      stages[stageOf(value)].results[value].second.push_back(numChannels++);
    };
    // Stage by stage, so that channels are numbered by their receivers.
    for (int64_t stage = 0; stage < static_cast<int64_t>(stages.size());
         ++stage)
      for (Operation &op : main.getBody().front().without_terminator())
        if (!isa<SourceOpInterface>(op) && getStage(&op) == stage)
          for (Value operand : op.getOperands())
            use(operand, stage);
    for (Value value : main.getBody().front().getTerminator()->getOperands())
      use(value, stageOf(value));
  }

  void collectResults(func::FuncOp main, std::vector<StageEnds> &stages) {
    Operation *terminator = main.getBody().front().getTerminator();
    for (OpOperand &use : terminator->getOpOperands())
      stages[stageOf(use.get())].results[use.get()].first.push_back(
          use.getOperandNumber());
  }

  void buildStage(OpBuilder &builder, func::FuncOp main, int64_t stage,
                  StageEnds &ends) {
    SmallVector<Type> argumentTypes, resultTypes;
    for (auto &[value, attributes] : ends.arguments)
      argumentTypes.push_back(value.getType());
    for (auto &[value, uses] : ends.results)
      resultTypes.push_back(value.getType());
    auto function = func::FuncOp::create(
        builder, main.getLoc(), ("stage" + Twine(stage) + "_forward").str(),
        builder.getFunctionType(argumentTypes, resultTypes));
    function->setAttr(kStage, builder.getI64IntegerAttr(stage));
    function->setAttr(kPhase, PhaseAttr::get(&getContext(), Phase::Forward));
    Block *block = function.addEntryBlock();
    IRMapping mapping;
    for (auto [index, entry] : llvm::enumerate(ends.arguments)) {
      mapping.map(entry.first, block->getArgument(index));
      function.setArgAttrs(index, entry.second.getDictionary(&getContext()));
    }
    for (auto [index, entry] : llvm::enumerate(ends.results)) {
      auto &[outputs, channels] = entry.second;
      NamedAttrList attributes;
      if (!outputs.empty()) {
        if (auto all = main.getResultAttrDict(outputs.front()))
          attributes.append(all.getValue());
        attributes.set("dist.output", builder.getDenseI64ArrayAttr(outputs));
      }
      if (!channels.empty())
        attributes.set("dist.send", builder.getDenseI64ArrayAttr(channels));
      attributes.set(kSharding, getSharding(entry.first));
      function.setResultAttrs(index, attributes.getDictionary(&getContext()));
    }
    auto body = OpBuilder::atBlockEnd(block);
    auto cloneSource = [&](Value value) {
      if (isSource(value) && !mapping.contains(value))
        body.clone(*value.getDefiningOp(), mapping);
    };
    for (Operation &op : main.getBody().front().without_terminator()) {
      if (isa<SourceOpInterface>(op) || getStage(&op) != stage)
        continue;
      for (Value operand : op.getOperands())
        cloneSource(operand);
      body.clone(op, mapping);
    }
    SmallVector<Value> results;
    for (auto &[value, uses] : ends.results) {
      cloneSource(value);
      results.push_back(mapping.lookup(value));
    }
    func::ReturnOp::create(body, main.getLoc(), results);
  }
};

} // namespace
