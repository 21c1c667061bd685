//===- Balance.cpp - cuts of a pipeline that trains -----------------------===//
//
// Problem: the dynamic program makes the slowest chunk as fast as possible. One
// group that takes long (the head of a language model) lets all other chunks be
// as long, wherever they are, and a stage with several long ones is late.
// And of cuts with the same slowest chunk, some fill the pipeline faster.
//
// Idea: local search. A run of neighbouring cuts is moved by some groups, which
// carries work from one chunk to any other, and the move is kept if a
// simulation says that the step becomes faster. Steps are halved when no move
// helps. Most moves are ruled out by the longest path through the step, which
// is known without simulating. The number of moves is limited; the result is
// never slower than what it began with.
//
//===----------------------------------------------------------------------===//
#include "Cutter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
using namespace kerf::plan::cutter;

/// A lower bound on a step: for each place one path through the schedule
/// (lib/Cost/SchedulePaths.cpp, factorOf()), the longest of these; sends are
/// not counted.
static int64_t longestPath(llvm::ArrayRef<cost::StageTimes> times,
                           int64_t stages, int64_t micro) {
  std::vector<int64_t> ofStage(stages, 0), inFront(stages, 0);
  for (auto [place, time] : llvm::enumerate(times))
    ofStage[place % stages] += time.forward + time.backward;
  int64_t longest = 0, before = 0;
  for (auto [place, time] : llvm::enumerate(times)) {
    int64_t stage = static_cast<int64_t>(place) % stages;
    longest = std::max(longest, micro * ofStage[stage] + before -
                                    stages * inFront[stage]);
    before += time.forward + time.backward;
    inFront[stage] += time.forward + time.backward;
  }
  return longest;
}

/// Instructions that are simulated, and chunks on paths: about a tenth of a
/// second.
static constexpr int64_t kMaxWork = 4'000'000;

std::pair<std::vector<size_t>, double>
Cutter::balance(std::vector<size_t> cuts) const {
  size_t n = groups.size();
  std::vector<double> before[kNumStepPhases];
  for (int phase = 0; phase < kNumStepPhases; ++phase) {
    before[phase].assign(n + 1, 0);
    for (size_t i = 0; i < n; ++i)
      before[phase][i + 1] = before[phase][i] + groups[i].load.compute[phase] +
                             groups[i].load.move[phase];
  }
  auto each = static_cast<double>(micro);
  std::vector<cost::Schedule> schedules;
  for (cost::ScheduleKind kind : kindsOfSchedule())
    schedules.push_back(
        cost::buildSchedule(kind, candidate.stages, micro, plan.chunks));
  int64_t work = kMaxWork;
  /// What a step takes; `worth` or more if it does not take less.
  auto secondsOf = [&](const std::vector<size_t> &cuts, double worth) {
    auto count = static_cast<int64_t>(places);
    work -= count;
    std::vector<cost::StageTimes> times(places);
    std::vector<double> once(candidate.stages, 0);
    for (size_t place = 0; place < places; ++place) {
      auto seconds = [&](StepPhase phase) {
        return before[phase][cuts[place + 1]] - before[phase][cuts[place]];
      };
      times[place].forward = cost::toPicoseconds(seconds(Forward) / each);
      times[place].backward = cost::toPicoseconds(seconds(Backward) / each);
      // About as much is sent back over a cut as forward.
      if (place + 1 < places)
        times[place].sendForward = times[place].sendBackward =
            cost::toPicoseconds(0.5 * crossingSeconds[cuts[place + 1]] / each);
      once[place % candidate.stages] += seconds(Once);
    }
    double last = *std::max_element(once.begin(), once.end());
    // Most moves make it slower, which a simulation is not needed for.
    double path =
        cost::fromPicoseconds(longestPath(times, candidate.stages, micro));
    if (path + last >= worth)
      return path + last;
    work -= 2 * micro * count * static_cast<int64_t>(schedules.size());
    int64_t min = std::numeric_limits<int64_t>::max();
    for (const cost::Schedule &schedule : schedules)
      min = std::min(min,
                     llvm::cantFail(cost::simulate(schedule, times)).makespan);
    return cost::fromPicoseconds(min) + last;
  };
  double best = secondsOf(cuts, std::numeric_limits<double>::infinity());
  /// Moves the cuts from `first` to `last` while that helps.
  auto move = [&](size_t first, size_t last, int64_t step) {
    bool helped = false;
    while (work > 0) {
      std::vector<size_t> other = cuts;
      for (size_t cut = first; cut <= last; ++cut)
        other[cut] += step;
      bool isCut = step > 0 ? other[last] < other[last + 1]
                            : cuts[first] > cuts[first - 1] + size_t(-step);
      double seconds = isCut ? secondsOf(other, best) : best;
      if (seconds >= best)
        return helped;
      best = seconds;
      cuts = std::move(other);
      helped = true;
    }
    return helped;
  };
  for (auto step = std::max<int64_t>(int64_t(n / places / 2), 1); step > 0;) {
    bool helped = false;
    for (size_t length = 0; length + 1 < places; ++length)
      for (size_t first = 1; first + length < places; ++first)
        for (int64_t by : {step, -step})
          helped |= move(first, first + length, by);
    if (!helped || work <= 0)
      step /= 2;
  }
  countWork(request.effort, WorkPiece::Visit,
            static_cast<double>(kMaxWork - work));
  return {std::move(cuts), best};
}
