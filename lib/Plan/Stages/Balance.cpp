//===- Balance.cpp - cuts of an interleaved pipeline ----------------------===//
//
// Problem: the dynamic program makes the slowest chunk as fast as possible. One
// unit that takes long (the head of a language model) lets all other chunks be
// as long, wherever they are, and a stage with several long ones is late.
//
// Idea: what the cuts are worth is simulated, and a run of neighbouring cuts is
// moved by some units while that makes the step faster: so work goes from one
// chunk to any other. Steps are halved when no move helps. The number of
// simulated instructions is limited; what is found is never slower.
//
//===----------------------------------------------------------------------===//
#include "Cutter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
using namespace kerf::plan::cutter;

/// Of all simulations of a search, about a tenth of a second.
static constexpr int64_t kMaxInstructions = 4'000'000;

std::vector<size_t> Cutter::balance(std::vector<size_t> cuts) const {
  size_t n = units.size();
  std::vector<double> before[kParts];
  for (int part = 0; part < kParts; ++part) {
    before[part].assign(n + 1, 0);
    for (size_t i = 0; i < n; ++i)
      before[part][i + 1] = before[part][i] + units[i].load.compute[part] +
                            units[i].load.move[part];
  }
  auto each = static_cast<double>(micro);
  cost::Schedule schedule = cost::buildSchedule(
      cost::ScheduleKind::Interleaved, candidate.stages, micro, plan.chunks);
  auto secondsOf = [&](const std::vector<size_t> &cuts) {
    std::vector<cost::StageTimes> times(places);
    std::vector<double> once(candidate.stages, 0);
    for (size_t place = 0; place < places; ++place) {
      auto work = [&](StepPart part) {
        return before[part][cuts[place + 1]] - before[part][cuts[place]];
      };
      times[place].forward = cost::toPicoseconds(work(Forward) / each);
      times[place].backward = cost::toPicoseconds(work(Backward) / each);
      // About as much is sent back over a cut as forward.
      if (place + 1 < places)
        times[place].sendForward = times[place].sendBackward =
            cost::toPicoseconds(0.5 * crossingSeconds[cuts[place + 1]] / each);
      once[place % candidate.stages] += work(Once);
    }
    cost::ScheduleResult result =
        llvm::cantFail(cost::simulate(schedule, times));
    return cost::fromPicoseconds(result.makespan) +
           *std::max_element(once.begin(), once.end());
  };
  int64_t trials = kMaxInstructions / (2 * micro * int64_t(places));
  double best = secondsOf(cuts);
  /// Moves the cuts from `first` to `last` while that helps.
  auto move = [&](size_t first, size_t last, int64_t step) {
    bool helped = false;
    for (; trials > 0; --trials) {
      std::vector<size_t> other = cuts;
      for (size_t cut = first; cut <= last; ++cut)
        other[cut] += step;
      bool isCut = step > 0 ? other[last] < other[last + 1]
                            : cuts[first] > cuts[first - 1] + size_t(-step);
      double seconds = isCut ? secondsOf(other) : best;
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
    if (!helped || trials <= 0)
      step /= 2;
  }
  return cuts;
}
