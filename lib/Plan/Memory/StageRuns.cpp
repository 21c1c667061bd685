//===- StageRuns.cpp - in which order a stage runs its functions ----------===//
#include "StageRuns.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::plan;

StageRuns::StageRuns(const cost::Schedule &schedule, int64_t stage,
                     const bool (&has)[kParts])
    : schedule(schedule),
      isTraining(has[Backward] || has[Prologue] || has[Update]) {
  if (has[Prologue])
    runs.push_back({Prologue, 0});
  for (const cost::Instruction &each : schedule[stage]) {
    Part part = each.phase == cost::Phase::Forward ? Forward : Backward;
    if (part == Forward || has[Backward])
      runs.push_back({part, each.microBatch});
  }
  if (has[Update])
    runs.push_back({Update, 0});
}

int64_t StageRuns::runOf(Part part, int64_t microBatch) const {
  for (auto [number, run] : llvm::enumerate(runs))
    if (run.part == part &&
        (run.microBatch == microBatch || part == Prologue || part == Update))
      return static_cast<int64_t>(number);
  return part == Prologue ? 0 : last();
}

int64_t StageRuns::heldUntil(int64_t receiver, Part part,
                             int64_t microBatch) const {
  int64_t sent = runOf(part, microBatch);
  if (!isTraining)
    return timeOf(sent);
  auto placeThere = [&](cost::Phase phase, int64_t of) {
    const auto &list = schedule[receiver];
    return std::distance(list.begin(), llvm::find_if(list, [&](auto &each) {
                           return each.phase == phase && each.microBatch == of;
                         }));
  };
  auto isLater = [&](const Run &run) {
    if (part == Forward)
      return run.part == Backward &&
             placeThere(cost::Phase::Backward, run.microBatch) >
                 placeThere(cost::Phase::Forward, microBatch);
    return run.part == Forward &&
           placeThere(cost::Phase::Forward, run.microBatch) >
               placeThere(cost::Phase::Backward, microBatch);
  };
  for (size_t number = sent + 1; number < runs.size(); ++number)
    if (isLater(runs[number]))
      return arrivalAt(static_cast<int64_t>(number), 0);
  return timeOf(last());
}
