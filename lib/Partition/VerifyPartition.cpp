//===- VerifyPartition.cpp - the contract after partitioning --------------===//
//
// The invariants that code generation and packaging rely on: local types
// everywhere, no shardings on compute ops, instruction lists that serve every
// channel, input and output exactly once per micro-batch.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dist/Entry.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace kerf {
#define GEN_PASS_DEF_VERIFYPARTITION
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

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
      if (!function.isExternal() && isPlanned(function))
        failed |= mlir::failed(verify(function));
    failed |= mlir::failed(verifySchedules()) || mlir::failed(verifyOrder());
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
    if (failed(verifySlots(function)))
      return failure();
    auto result = function.walk([&](Operation *op) -> WalkResult {
      if (isa<ReshardOp>(op))
        return op->emitError("partition: a reshard is left");
      if (op->hasAttr(kPlan))
        return op->emitError("partition: ") << kPlan << " is left";
      if (StepAttr step = getStep(op); step != phaseOnly(step))
        return op->emitError("partition: ")
               << kStep << " says more than a phase and recomputed";
      auto source = dyn_cast<SourceOpInterface>(op);
      if (source && source.isParameter())
        return verifyEnd(op, op->getAttr(kSharding), op->getAttr(kGlobalType),
                         op->getResult(0).getType(), "source");
      return success();
    });
    return failure(result.wasInterrupted());
  }

  /// Every kept value that is read exists; a sum has the type of its result.
  LogicalResult verifySlots(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Type type = function.getArgumentTypes()[i];
      if (auto sum = numberFrom(function, i, From::Accumulator))
        if (*sum >= function.getNumResults() ||
            function.getResultTypes()[*sum] != type)
          return function.emitError("partition: argument ")
                 << i << " accumulates result " << *sum
                 << ", expected a result of type " << type;
      if (auto kept = numberFrom(function, i, From::Kept))
        if (typeOfKept(getStage(function), *kept) != type)
          return function.emitError("partition: argument ")
                 << i << " is kept value " << *kept
                 << ", expected a function of stage " << getStage(function)
                 << " to keep it as " << type;
    }
    return success();
  }

  Type typeOfKept(int64_t stage, int64_t number) {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (getStage(function) == stage &&
            llvm::is_contained(keepsOf(function, i), number))
          return function.getResultTypes()[i];
    return Type();
  }

  /// Whether a channel is used for each micro-batch: unless the functions that
  /// it connects run once per step.
  bool isPerMicroBatch(ChannelOp channel) {
    int64_t number = channel.getNumber();
    bool taken = false, takenPerMicroBatch = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      bool once = dist::runsOncePerStep(getPhase(function));
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (numberFrom(function, i, From::Recv) == number) {
          taken = true;
          takenPerMicroBatch |= !once;
        }
      for (unsigned i = 0; once && i < function.getNumResults(); ++i)
        if (llvm::is_contained(sendsOf(function, i), number))
          return false;
    }
    return !taken || takenPerMicroBatch;
  }

  /// Executes the lists together under the strictest rules that a runtime may
  /// have: a send does not wait, but the instruction behind the one until which
  /// its slot is held waits until the value was taken. If all stages reach the
  /// end, no run can deadlock: each wait is for one other instruction, so the
  /// order of execution does not matter.
  LogicalResult verifyOrder() {
    struct Player {
      SmallVector<Operation *> ops;
      size_t next = 0;
      /// Sends that may be open: (last instruction, channel, number).
      std::vector<std::tuple<int64_t, uint64_t, int64_t>> open;
    };
    std::vector<Player> players;
    for (auto schedule : getOperation().getOps<ScheduleOp>()) {
      players.emplace_back();
      for (Operation &op : schedule.getBody().front())
        players.back().ops.push_back(&op);
    }
    llvm::DenseMap<uint64_t, int64_t> sent, taken;
    bool moved = true;
    while (moved) {
      moved = false;
      for (Player &player : players)
        for (; player.next < player.ops.size(); ++player.next, moved = true) {
          auto now = static_cast<int64_t>(player.next);
          llvm::erase_if(player.open, [&](auto &send) {
            return taken[std::get<1>(send)] > std::get<2>(send);
          });
          if (llvm::any_of(player.open,
                           [&](auto &send) { return std::get<0>(send) < now; }))
            break;
          Operation *op = player.ops[player.next];
          if (auto send = dyn_cast<SendOp>(op)) {
            int64_t number = sent[send.getChannel()]++;
            if (std::optional<int64_t> until = send.getHeldUntil())
              player.open.push_back({*until, send.getChannel(), number});
          }
          if (auto recv = dyn_cast<RecvOp>(op)) {
            if (taken[recv.getChannel()] == sent[recv.getChannel()])
              break;
            ++taken[recv.getChannel()];
          }
        }
    }
    for (Player &player : players)
      if (player.next < player.ops.size())
        return player.ops[player.next]->emitError(
            "partition: the schedules deadlock before this instruction");
    return success();
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
      bool once = sends.size() == 1 && !isPerMicroBatch(channel);
      if ((sends.size() != numBatches && !once) || sends != recvs)
        return channel.emitError("partition: is sent ")
               << sends.size() << " and received " << recvs.size()
               << " times, expected " << (once ? 1 : numBatches)
               << " in one order";
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      PartAttr part = getPart(function);
      if (part && !stages.contains(part.getStage()))
        return function.emitError("partition: stage ")
               << part.getStage() << " has no schedule";
      if (int64_t chunks = getNumChunks(getOperation());
          part && part.getChunk() >= chunks)
        return function.emitError("partition: chunk is ")
               << part.getChunk() << ", expected less than " << chunks;
      if (function.isExternal() && isPlanned(function))
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
