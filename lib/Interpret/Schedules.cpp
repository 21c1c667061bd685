//===- Schedules.cpp - stages run their lists against each other ----------===//
//
// Each stage has a position in its list; stages take turns and advance as far
// as they can. A receive waits for its message; if no stage can advance and one
// is not done, the lists deadlock.
//
//===----------------------------------------------------------------------===//
#include "Ranks.h"

#include "kerf/Dist/Entry.h"

#include <cmath>
#include <deque>
#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::interpret;

namespace {

struct Stage {
  ScheduleOp schedule;
  StageRanks ranks;
  Block::iterator next;
  llvm::DenseMap<Value, PerRank> slots;

  Stage(ScheduleOp schedule, const Mesh &mesh)
      : schedule(schedule), ranks(mesh, schedule.getStage()),
        next(schedule.getBody().front().begin()) {}
};

class World {
public:
  World(ModuleOp module, ArrayRef<Tensor> inputs, const Weights &weights,
        RankStates *states, const Observer &observer, const Evaluator &others)
      : module(module), inputs(inputs), weights(weights), states(states),
        observer(observer), others(others), mesh(getMesh(module).toMesh()) {
    if (states)
      states->ranks.resize(mesh.numRanks());
  }

  FailureOr<std::vector<Tensor>> run() {
    main = dist::findEntry(module);
    for (Type type : main.getResultTypes())
      outputs.emplace_back(cast<RankedTensorType>(type).getShape(), NAN);
    std::vector<Stage> stages;
    for (auto schedule : module.getOps<ScheduleOp>())
      stages.emplace_back(schedule, mesh);
    bool moved = true, done = false;
    while (moved && !done) {
      moved = false;
      done = true;
      for (Stage &stage : stages) {
        auto end = stage.schedule.getBody().front().end();
        while (stage.next != end) {
          auto went = step(stage, &*stage.next);
          if (failed(went))
            return failure();
          if (!*went)
            break;
          ++stage.next;
          moved = true;
        }
        done &= stage.next == end;
      }
    }
    if (!done)
      return module.emitError("interpreter: the schedules deadlock");
    return std::move(outputs);
  }

private:
  /// False if the instruction must wait.
  FailureOr<bool> step(Stage &stage, Operation *op) {
    if (auto input = dyn_cast<InputOp>(op)) {
      auto sharding = op->getAttrOfType<ShardingAttr>(kSharding);
      if (!sharding)
        sharding =
            main.getArgAttrOfType<ShardingAttr>(input.getIndex(), kSharding);
      Layout layout = llvm::cantFail(sharding.toLayout(mesh));
      Type element = getElementTypeOrSelf(input.getType());
      PerRank &slot = stage.slots[input.getResult()];
      for (size_t rank = 0; rank < stage.ranks.size(); ++rank)
        slot.push_back(
            cutPart(inputs[input.getIndex()], layout, mesh,
                    stage.ranks.coordinates(rank, input.getMicroBatch()),
                    poison(element)));
      return true;
    }
    if (auto recv = dyn_cast<RecvOp>(op)) {
      auto &queue = messages[recv.getChannel()];
      if (queue.empty())
        return false;
      if (queue.front().first != recv.getMicroBatch())
        return op->emitError("interpreter: receives micro-batch ")
               << queue.front().first << ", expected " << recv.getMicroBatch();
      stage.slots[recv.getResult()] = std::move(queue.front().second);
      queue.pop_front();
      return true;
    }
    if (auto send = dyn_cast<SendOp>(op)) {
      messages[send.getChannel()].push_back(
          {send.getMicroBatch(), stage.slots[send.getX()]});
      return true;
    }
    if (auto output = dyn_cast<OutputOp>(op))
      return store(stage, output);
    if (auto zero = dyn_cast<ZeroOp>(op)) {
      stage.slots[zero.getResult()].assign(
          stage.ranks.size(),
          Tensor(cast<RankedTensorType>(zero.getType()).getShape()));
      return true;
    }
    auto runOp = cast<RunOp>(op);
    std::vector<PerRank> arguments;
    for (Value operand : runOp.getOperands())
      arguments.push_back(stage.slots[operand]);
    auto results =
        stage.ranks.run(module.lookupSymbol<func::FuncOp>(runOp.getCallee()),
                        std::move(arguments), runOp.getMicroBatch(), weights,
                        states, observer, others);
    if (failed(results))
      return failure();
    for (auto [value, result] : llvm::zip(runOp.getResults(), *results))
      stage.slots[value] = std::move(result);
    return true;
  }

  /// Every rank's part, not the first one's: replicas must agree.
  FailureOr<bool> store(Stage &stage, OutputOp op) {
    auto sharding =
        main.getResultAttrOfType<ShardingAttr>(op.getIndex(), kSharding);
    Layout layout = llvm::cantFail(sharding.toLayout(mesh));
    Tensor &whole = outputs[op.getIndex()];
    bool agree = true;
    for (size_t rank = 0; rank < stage.ranks.size(); ++rank) {
      const Tensor &part = stage.slots[op.getX()][rank];
      auto at = stage.ranks.coordinates(rank, op.getMicroBatch());
      forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
        Index global(index);
        for (size_t d = 0; d < index.size(); ++d)
          global[d] += linearIndex(mesh, layout.dims[d], at) * part.shape[d];
        if (!whole.contains(global))
          return;
        double &value = whole.at(global);
        if (!std::isnan(value) && !(std::fabs(value - part.at(index)) <=
                                    1e-6 * (1 + std::fabs(value))))
          agree = false;
        value = part.at(index);
      });
    }
    if (!agree)
      return op.emitError("interpreter: ranks hold different values of output ")
             << op.getIndex();
    return true;
  }

  ModuleOp module;
  ArrayRef<Tensor> inputs;
  const Weights &weights;
  RankStates *states;
  const Observer &observer;
  const Evaluator &others;
  Mesh mesh;
  func::FuncOp main;
  std::vector<Tensor> outputs;
  std::map<uint64_t, std::deque<std::pair<uint64_t, PerRank>>> messages;
};

} // namespace

FailureOr<std::vector<Tensor>> kerf::interpret::runPartitioned(
    ModuleOp module, ArrayRef<Tensor> inputs, const Weights &weights,
    RankStates *states, const Observer &observer, const Evaluator &others) {
  return World(module, inputs, weights, states, observer, others).run();
}
