//===- Peak.cpp - the fullest instant of a device -------------------------===//
//
// Buffers of a function and slots of a stage are laid out as lowering does it;
// the function that needs most counts beside the slots.
//
//===----------------------------------------------------------------------===//
#include "../Model/Terminator.h"
#include "../Stages/StageBytes.h"
#include "StageMemory.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Bytes of an arena in which buffers lie as lowering lays them out.
static int64_t packedBytes(ArrayRef<ArenaBuffer> buffers) {
  auto plan = planArena(buffers, kAlignment);
  return plan ? plan->totalBytes : std::numeric_limits<int64_t>::max() / 4;
}

/// The function that partition makes one with the update when it runs last
/// (kerf-join-updates): gradients are then summed over devices behind it, and
/// neither sends anything to another stage.
std::optional<StageFunction> StageMemory::joinedWithUpdate() {
  ArrayRef<StageRuns::Run> all = runs.all();
  if (isWhole || all.size() < 2 || all.back().which != functions.update())
    return std::nullopt;
  StageFunction last = all[all.size() - 2].which;
  if (last == StageFunctions::Prologue)
    return std::nullopt;
  bool sumsGradients = false;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || !isHere(&op) || isConstant(&op) ||
        isTerminator(&op) ||
        (functionOf(&op) != last && functionOf(&op) != functions.update()))
      continue;
    auto isSent = [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        return !isTerminator(user) && !isHere(user);
      });
    };
    if (llvm::any_of(op.getResults(), isSent) ||
        (isa<dist::AssignOp>(op) && isSent(op.getOperand(0))))
      return std::nullopt;
    sumsGradients |=
        isa<dist::AccumulateOp>(op) &&
        graph.layouts[graph.resultLayout(solution, op.getResult(0))]
            .isPartial();
  }
  return sumsGradients ? std::optional(last) : std::nullopt;
}

PlanResult::Memory StageMemory::run() {
  addAll();
  if (std::optional<StageFunction> which = joinedWithUpdate()) {
    StageMemory both(graph, solution, function, map, stage, constants,
                     partsOfSums);
    both.joined = which;
    both.addAll();
    buffers[functions.update()] = std::move(both.buffers[functions.update()]);
  }
  int64_t max = 0, gradients = 0;
  for (std::vector<Buffer> &list : buffers) {
    llvm::erase_if(list, [](const Buffer &b) { return b.begin >= b.end; });
    std::vector<ArenaBuffer> lives;
    for (const Buffer &buffer : list)
      lives.push_back({buffer.begin, buffer.end - 1, buffer.bytes});
    int64_t bytes = packedBytes(lives);
    if (bytes > max) {
      max = bytes;
      gradients = gradientsAtPeak(list);
    }
  }
  // Sums over micro-batches are among the slots.
  memory.activations = packedBytes(slots) - memory.gradients + max - gradients;
  memory.gradients += gradients;
  memory.peak = memory.parameters + memory.gradients + memory.optimizer +
                memory.activations + memory.workspace;
  return memory;
}

/// Bytes of gradients among the buffers that are live at the peak.
int64_t StageMemory::gradientsAtPeak(ArrayRef<Buffer> list) const {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> events;
  for (const Buffer &buffer : list) {
    int64_t gradient = buffer.isGradient ? buffer.bytes : 0;
    events.push_back({buffer.begin, buffer.bytes, gradient});
    events.push_back({buffer.end, -buffer.bytes, -gradient});
  }
  llvm::sort(events);
  int64_t now = 0, max = 0, gradient = 0, gradients = 0;
  for (auto [time, bytes, part] : events) {
    now += bytes;
    gradient += part;
    if (now > max) {
      max = now;
      gradients = gradient;
    }
  }
  return gradients;
}

std::vector<PlanResult::Memory>
kerf::plan::stageMemory(const Graph &graph, const Solution &solution,
                        func::FuncOp function, const StageMap &map) {
  DenseSet<Operation *> constants = findConstants(graph, solution, function);
  DenseMap<Value, int64_t> sums = partsOfSums(function, graph.getBatch());
  std::vector<PlanResult::Memory> memory;
  for (int64_t stage = 0; stage < map.stages; ++stage)
    memory.push_back(
        StageMemory(graph, solution, function, map, stage, constants, sums)
            .run());
  return memory;
}
