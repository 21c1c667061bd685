//===- VerifyPartition.cpp - the contract after partitioning --------------===//
//
// What codegen and packaging take for granted: local types everywhere, no
// shardings on compute ops, instruction lists that serve every channel, input
// and output exactly once per micro-batch.
//
//===----------------------------------------------------------------------===//
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <map>

namespace kerf {
#define GEN_PASS_DEF_VERIFYPARTITION
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

void kerf::buildPartitionPipeline(OpPassManager &passes, bool verify) {
  if (verify)
    passes.addPass(createVerifyPlan());
  passes.addPass(createInsertReshards());
  passes.addPass(createSplitStages());
  passes.addPass(createLocalize());
  passes.addPass(createLowerReshards());
  passes.addPass(createBuildSchedule());
  if (verify)
    passes.addPass(createVerifyPartition());
}

namespace {

struct VerifyPartition : kerf::impl::VerifyPartitionBase<VerifyPartition> {
  void runOnOperation() override {
    MeshAttr attribute = getMesh(getOperation());
    if (!attribute) {
      getOperation().emitError("partition: the module has no dist.mesh");
      return signalPassFailure();
    }
    mesh = attribute.toMesh();
    bool failed = false;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        failed |= mlir::failed(verify(function));
    failed |= mlir::failed(verifySchedules());
    if (failed)
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// `local` is what `sharding` makes of `global`.
  LogicalResult verifyEnd(Operation *op, Attribute sharding, Attribute global,
                          Type local, const Twine &what) {
    auto entry = dyn_cast_or_null<ShardingAttr>(sharding);
    auto type = dyn_cast_or_null<TypeAttr>(global);
    if (!entry || !type)
      return op->emitError("partition: ")
             << what << " needs dist.sharding and dist.global_type";
    auto layout = entry.toLayout(mesh);
    if (!layout)
      return op->emitError("partition: ")
             << what << ": " << llvm::toString(layout.takeError());
    Type expected = localType(cast<RankedTensorType>(type.getValue()), *layout);
    if (expected != local)
      return op->emitError("partition: ")
             << what << " is " << local << ", expected " << expected << " for "
             << dist::toString(*layout, mesh) << " of " << type.getValue();
    return success();
  }

  LogicalResult verify(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(verifyEnd(function, function.getArgAttr(i, kSharding),
                           function.getArgAttr(i, kGlobalType),
                           function.getArgumentTypes()[i],
                           "argument " + Twine(i))))
        return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (failed(verifyEnd(function, function.getResultAttr(i, kSharding),
                           function.getResultAttr(i, kGlobalType),
                           function.getResultTypes()[i], "result " + Twine(i))))
        return failure();
    auto result = function.walk([&](Operation *op) -> WalkResult {
      if (isa<ReshardOp>(op))
        return op->emitError("partition: a reshard is left");
      if (op != function)
        for (StringRef name :
             {StringRef(kOperands), StringRef(kResults), StringRef(kStage)})
          if (op->hasAttr(name))
            return op->emitError("partition: ") << name << " is left";
      auto source = dyn_cast<SourceOpInterface>(op);
      if (source && source.isParameter())
        return verifyEnd(op, op->getAttr(kSharding), op->getAttr(kGlobalType),
                         op->getResult(0).getType(), "source");
      return success();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult verifySchedules() {
    // Micro-batches of each end of each channel, and of each output.
    std::map<std::pair<uint64_t, bool>, SmallVector<uint64_t>> transfers;
    std::map<uint64_t, uint64_t> outputs;
    llvm::SmallDenseSet<uint64_t> stages;
    for (auto schedule : getOperation().getOps<ScheduleOp>()) {
      stages.insert(schedule.getStage());
      schedule.walk([&](SendOp op) {
        transfers[{op.getChannel(), true}].push_back(op.getMicroBatch());
      });
      schedule.walk([&](RecvOp op) {
        transfers[{op.getChannel(), false}].push_back(op.getMicroBatch());
      });
      schedule.walk([&](OutputOp op) { ++outputs[op.getIndex()]; });
    }
    uint64_t numBatches = mesh.numMicroBatches();
    for (auto channel : getOperation().getOps<ChannelOp>()) {
      auto &sends = transfers[{channel.getNumber(), true}];
      auto &recvs = transfers[{channel.getNumber(), false}];
      if (sends.size() != numBatches || sends != recvs)
        return channel.emitError("partition: is sent ")
               << sends.size() << " and received " << recvs.size()
               << " times, expected " << numBatches << " in one order";
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (auto stage = function->getAttrOfType<IntegerAttr>(kStage);
          stage && !stages.contains(stage.getInt()))
        return function.emitError("partition: stage ")
               << stage.getInt() << " has no schedule";
      if (function.isExternal())
        for (unsigned i = 0; i < function.getNumResults(); ++i)
          if (!outputs.count(i))
            return function.emitError("partition: result ")
                   << i << " is handed out by no stage";
    }
    return success();
  }

  Mesh mesh;
};

} // namespace
