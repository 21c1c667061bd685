//===- StageRuns.cpp - in which order a stage runs its functions ----------===//
#include "StageRuns.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::plan;

static Part partOf(const cost::Instruction &instruction, const Parts &parts) {
  return instruction.phase == cost::Phase::Forward
             ? parts.forward(instruction.chunk)
             : parts.backward(instruction.chunk);
}

StageRuns::StageRuns(const cost::Schedule &schedule, Parts parts, int64_t stage,
                     llvm::ArrayRef<bool> has)
    : parts(parts), stage(stage),
      numStages(static_cast<int64_t>(schedule.size())) {
  auto isOfTraining = [&](Part part) { return !parts.isForward(part); };
  for (Part part = 0; part < parts.count(); ++part)
    isTraining |= has[part] && isOfTraining(part);
  for (const auto &list : schedule)
    for (const cost::Instruction &each : list)
      numMicroBatches = std::max(numMicroBatches, each.microBatch + 1);
  if (has[Parts::Prologue])
    runs.push_back({Parts::Prologue, 0});
  for (const cost::Instruction &each : schedule[stage]) {
    Part part = partOf(each, parts);
    if (parts.isForward(part) || has[part])
      runs.push_back({part, each.microBatch});
  }
  if (has[parts.update()])
    runs.push_back({parts.update(), 0});
  numbers.assign(parts.count() * numMicroBatches, -1);
  for (auto [number, run] : llvm::enumerate(runs))
    numbers[run.part * numMicroBatches + run.microBatch] =
        static_cast<int64_t>(number);
  if (!isTraining)
    return;
  for (const auto &list : schedule) {
    places.emplace_back(parts.count() * numMicroBatches, -1);
    for (auto [place, each] : llvm::enumerate(list))
      places.back()[partOf(each, parts) * numMicroBatches + each.microBatch] =
          static_cast<int64_t>(place);
  }
}

int64_t StageRuns::runOf(Part part, int64_t microBatch) const {
  int64_t number = numMicroBatches == 0
                       ? -1
                       : numbers[part * numMicroBatches +
                                 (parts.runsOnce(part) ? 0 : microBatch)];
  if (number >= 0)
    return number;
  return part == Parts::Prologue ? 0 : last();
}

int64_t StageRuns::heldUntil(int64_t receiver, Part part, Part taker,
                             int64_t microBatch) const {
  int64_t sent = runOf(part, microBatch);
  if (!isTraining)
    return timeOf(sent);
  if (parts.runsOnce(taker))
    return timeOf(last());
  int64_t taken = placeOf(receiver, taker, microBatch);
  // A run waits for the chunks in front of its own, in the order of its pass,
  // also for those of the receiver: the last of these is what it hears of.
  auto isLater = [&](const Run &run) {
    if (parts.runsOnce(run.part))
      return false;
    bool isForward = parts.isForward(run.part);
    int64_t chunk = parts.chunkOf(run.part);
    int64_t heard =
        isForward ? chunk - (receiver > stage) : chunk + (receiver < stage);
    if (heard < 0 || heard >= parts.chunks)
      return false;
    return placeOf(receiver,
                   isForward ? parts.forward(heard) : parts.backward(heard),
                   run.microBatch) > taken;
  };
  for (size_t number = sent + 1; number < runs.size(); ++number)
    if (isLater(runs[number]))
      return arrivalAt(static_cast<int64_t>(number), 0);
  return timeOf(last());
}
