//===- BuildSchedule.cpp - the instruction list of every stage ------------===//
//
// The order of work comes from lib/Cost (the same lists that the planner
// simulated); here it becomes instructions on tensors: inputs and receives
// before a function runs, sends and outputs after it.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Schedule.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct BuildSchedule : kerf::impl::BuildScheduleBase<BuildSchedule> {
  void runOnOperation() override {
    MeshAttr attribute = getMesh(getOperation());
    if (!attribute)
      return;
    mesh = attribute.toMesh();
    SmallVector<func::FuncOp> stages;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kStage) && !function.isExternal())
        stages.push_back(function);
    cost::Schedule order = cost::buildSchedule(
        cost::ScheduleKind::Forward, std::max<size_t>(stages.size(), 1),
        mesh.numMicroBatches());
    for (func::FuncOp stage : stages)
      build(stage, order[getStage(stage)]);
  }

private:
  bool inTime(func::FuncOp function, Attribute sharding) {
    auto layout = llvm::cantFail(cast<ShardingAttr>(sharding).toLayout(mesh));
    return llvm::any_of(layout.dims, [&](const AxisList &axes) {
      return llvm::any_of(
          axes, [&](const AxisRef &ref) { return mesh.axes[ref.axis].isTime; });
    });
  }

  void build(func::FuncOp function,
             const std::vector<cost::Instruction> &order) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(getOperation().getBody());
    auto schedule =
        ScheduleOp::create(builder, function.getLoc(), getStage(function));
    builder.createBlock(&schedule.getBody());
    // Inputs that are the same for all micro-batches are read once.
    SmallVector<Value> constant(function.getNumArguments());
    for (const cost::Instruction &instruction : order)
      buildRun(builder, function, instruction.microBatch, constant);
  }

  void buildRun(OpBuilder &builder, func::FuncOp function, int64_t microBatch,
                SmallVectorImpl<Value> &constant) {
    Location loc = function.getLoc();
    SmallVector<Value> operands;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Type type = function.getArgumentTypes()[i];
      if (auto channel =
              function.getArgAttrOfType<IntegerAttr>(i, "dist.recv")) {
        operands.push_back(RecvOp::create(builder, loc, type, channel.getInt(),
                                          microBatch, PurposeAttr()));
        continue;
      }
      bool varies = inTime(function, function.getArgAttr(i, kSharding));
      Value &input = constant[i];
      if (varies || !input)
        input = InputOp::create(
            builder, loc, type,
            function.getArgAttrOfType<IntegerAttr>(i, "dist.input").getInt(),
            microBatch);
      operands.push_back(input);
    }
    auto run = RunOp::create(builder, loc, function.getResultTypes(),
                             function.getName(), operands, microBatch);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto channels =
              function.getResultAttrOfType<DenseI64ArrayAttr>(i, "dist.send"))
        for (int64_t channel : channels.asArrayRef())
          SendOp::create(builder, loc, run.getResult(i), channel, microBatch,
                         PurposeAttr());
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      bool varies = inTime(function, function.getResultAttr(i, kSharding));
      if (auto outputs =
              function.getResultAttrOfType<DenseI64ArrayAttr>(i, "dist.output");
          outputs && (varies || microBatch == 0))
        for (int64_t output : outputs.asArrayRef())
          OutputOp::create(builder, loc, run.getResult(i), output, microBatch);
    }
  }

  Mesh mesh;
};

} // namespace
