//===- StageRuns.cpp - in which order a stage runs its functions ----------===//
#include "StageRuns.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::plan;

static StageFunction functionOf(const cost::Instruction &instruction,
                                const StageFunctions &functions) {
  return instruction.phase == cost::Phase::Forward
             ? functions.forward(instruction.chunk)
             : functions.backward(instruction.chunk);
}

StageRuns::StageRuns(const cost::Schedule &schedule, StageFunctions functions,
                     int64_t stage, llvm::ArrayRef<bool> has)
    : functions(functions), stage(stage),
      numStages(static_cast<int64_t>(schedule.size())) {
  auto isOfTraining = [&](StageFunction which) {
    return !functions.isForward(which);
  };
  for (StageFunction which = 0; which < functions.count(); ++which)
    isTraining |= has[which] && isOfTraining(which);
  for (const auto &list : schedule)
    for (const cost::Instruction &each : list)
      numMicroBatches = std::max(numMicroBatches, each.microBatch + 1);
  if (has[StageFunctions::Prologue])
    runs.push_back({StageFunctions::Prologue, 0});
  for (const cost::Instruction &each : schedule[stage]) {
    StageFunction which = functionOf(each, functions);
    if (functions.isForward(which) || has[which])
      runs.push_back({which, each.microBatch});
  }
  if (has[functions.update()])
    runs.push_back({functions.update(), 0});
  numbers.assign(functions.count() * numMicroBatches, -1);
  for (auto [number, run] : llvm::enumerate(runs))
    numbers[run.which * numMicroBatches + run.microBatch] =
        static_cast<int64_t>(number);
  if (!isTraining)
    return;
  for (const auto &list : schedule) {
    places.emplace_back(functions.count() * numMicroBatches, -1);
    for (auto [place, each] : llvm::enumerate(list))
      places.back()[functionOf(each, functions) * numMicroBatches +
                    each.microBatch] = static_cast<int64_t>(place);
  }
}

int64_t StageRuns::runOf(StageFunction which, int64_t microBatch) const {
  int64_t number = numMicroBatches == 0
                       ? -1
                       : numbers[which * numMicroBatches +
                                 (functions.runsOnce(which) ? 0 : microBatch)];
  if (number >= 0)
    return number;
  return which == StageFunctions::Prologue ? 0 : last();
}

int64_t StageRuns::heldUntil(int64_t receiver, StageFunction which,
                             StageFunction taker, int64_t microBatch) const {
  int64_t sent = runOf(which, microBatch);
  if (!isTraining)
    return timeOf(sent);
  if (functions.runsOnce(taker))
    return timeOf(last());
  int64_t taken = placeOf(receiver, taker, microBatch);
  // A run starts after those of its micro-batch on all chunks that its pass
  // visits before, also on those of the receiver. So when it starts, the
  // receiver is known to have finished the last of these.
  auto isLater = [&](const Run &run) {
    if (functions.runsOnce(run.which))
      return false;
    bool isForward = functions.isForward(run.which);
    int64_t chunk = functions.chunkOf(run.which);
    int64_t heard =
        isForward ? chunk - (receiver > stage) : chunk + (receiver < stage);
    if (heard < 0 || heard >= functions.chunks)
      return false;
    return placeOf(receiver,
                   isForward ? functions.forward(heard)
                             : functions.backward(heard),
                   run.microBatch) > taken;
  };
  for (size_t number = sent + 1; number < runs.size(); ++number)
    if (isLater(runs[number]))
      return arrivalAt(static_cast<int64_t>(number), 0);
  return timeOf(last());
}
