//===- Schedule.cpp - pipeline schedules and their makespan ---------------===//
//
// Lists are built by the textbook rules. The simulation advances each stage
// through its list while the inputs of the next instruction have arrived; if no
// stage can advance and one has work left, the lists deadlock. Every
// instruction is visited once per stage that it unblocks, so the whole is
// linear.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Schedule.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cassert>

using namespace kerf::cost;

llvm::StringRef kerf::cost::toString(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::Forward:
    return "forward";
  case ScheduleKind::GPipe:
    return "gpipe";
  case ScheduleKind::OneFOneB:
    return "1f1b";
  case ScheduleKind::Interleaved:
    return "interleaved";
  }
  llvm_unreachable("bad ScheduleKind");
}

std::optional<ScheduleKind>
kerf::cost::parseScheduleKind(llvm::StringRef name) {
  for (ScheduleKind kind : {ScheduleKind::Forward, ScheduleKind::GPipe,
                            ScheduleKind::OneFOneB, ScheduleKind::Interleaved})
    if (toString(kind) == name)
      return kind;
  return std::nullopt;
}

/// The list of one stage of an interleaved schedule. Chunk by chunk as many
/// micro-batches go forward as there are stages, then the next as many; back
/// they come in the same order through the chunks from the last to the first.
/// The warm-up of stage i takes 2 (p - i - 1) micro-batches more than it takes
/// to bring the first to the last chunk: a micro-batch reaches the end of the
/// pipeline and comes back while the stage works on these.
static std::vector<Instruction> interleavedList(int64_t stage,
                                                int64_t numStages,
                                                int64_t numMicroBatches,
                                                int64_t numChunks) {
  int64_t round = numStages * numChunks, total = numMicroBatches * numChunks;
  auto instruction = [&](Phase phase, int64_t number) -> Instruction {
    int64_t chunk = number % round / numStages;
    return {phase, number / round * numStages + number % numStages,
            phase == Phase::Forward ? chunk : numChunks - 1 - chunk};
  };
  int64_t warmUp = std::min(total, 2 * (numStages - stage - 1) +
                                       (numChunks - 1) * numStages);
  std::vector<Instruction> list;
  for (int64_t number = 0; number < warmUp; ++number)
    list.push_back(instruction(Phase::Forward, number));
  for (int64_t number = 0; number < total; ++number) {
    if (warmUp + number < total)
      list.push_back(instruction(Phase::Forward, warmUp + number));
    list.push_back(instruction(Phase::Backward, number));
  }
  return list;
}

Schedule kerf::cost::buildSchedule(ScheduleKind kind, int64_t numStages,
                                   int64_t numMicroBatches, int64_t numChunks) {
  assert(numStages >= 1 && numMicroBatches >= 1 && numChunks >= 1);
  Schedule schedule(numStages);
  if (kind == ScheduleKind::Interleaved) {
    assert(numMicroBatches % numStages == 0);
    for (int64_t stage = 0; stage < numStages; ++stage)
      schedule[stage] =
          interleavedList(stage, numStages, numMicroBatches, numChunks);
    return schedule;
  }
  assert(numChunks == 1);
  for (int64_t stage = 0; stage < numStages; ++stage) {
    std::vector<Instruction> &list = schedule[stage];
    // GPipe is 1F1B whose warm-up is the whole forward.
    int64_t warmUp = kind == ScheduleKind::OneFOneB
                         ? std::min(numMicroBatches, numStages - stage)
                         : numMicroBatches;
    for (int64_t j = 0; j < warmUp; ++j)
      list.push_back({Phase::Forward, j, 0});
    if (kind == ScheduleKind::Forward)
      continue;
    for (int64_t j = 0; j < numMicroBatches; ++j) {
      list.push_back({Phase::Backward, j, 0});
      if (warmUp + j < numMicroBatches)
        list.push_back({Phase::Forward, warmUp + j, 0});
    }
  }
  return schedule;
}

static llvm::Error scheduleError(const llvm::Twine &message) {
  return llvm::createStringError("schedule: " + message);
}

static const char *phaseName(Phase phase) {
  return phase == Phase::Forward    ? "forward"
         : phase == Phase::Backward ? "backward"
                                    : "backward-weight";
}

static std::string describe(int64_t stage, const Instruction &instruction) {
  return (llvm::Twine("stage ") + llvm::Twine(stage) + ": " +
          phaseName(instruction.phase) + " of micro-batch " +
          llvm::Twine(instruction.microBatch) + ", chunk " +
          llvm::Twine(instruction.chunk))
      .str();
}

namespace {

constexpr Int128 kNever = -1;
constexpr unsigned kNumPhases = 3;

/// When each instruction ended, and when the value that it sends arrived.
struct Simulation {
  const Schedule &schedule;
  llvm::ArrayRef<StageTimes> times;
  int64_t numStages, numVirtual, numMicroBatches = 0;
  bool hasPhase[kNumPhases] = {false, false, false};
  /// ended[phase][virtual stage * numMicroBatches + micro-batch]
  std::vector<Int128> ended[kNumPhases], arrived[kNumPhases];
  /// When each link is free again. Each stage has two, to the next stage and to
  /// the one before it; with two stages these are one and the same.
  std::vector<Int128> linkFree;
  std::vector<Int128> clock, busy;
  std::vector<size_t> next;
  std::vector<std::vector<ScheduleResult::Span>> spans;

  Simulation(const Schedule &schedule, llvm::ArrayRef<StageTimes> times)
      : schedule(schedule), times(times),
        numStages(static_cast<int64_t>(schedule.size())),
        numVirtual(static_cast<int64_t>(times.size())) {}

  size_t slot(int64_t virtualStage, int64_t microBatch) const {
    return virtualStage * numMicroBatches + microBatch;
  }

  llvm::Error checkLists();
  /// When all inputs of the instruction are there; kNever: not yet.
  Int128 ready(int64_t virtualStage, const Instruction &instruction) const;
  void execute(int64_t stage, const Instruction &instruction, Int128 start);
};

} // namespace

llvm::Error Simulation::checkLists() {
  if (numStages == 0 || numVirtual % numStages != 0 || numVirtual == 0)
    return scheduleError("has " + llvm::Twine(numVirtual) +
                         " stage times, expected a multiple of " +
                         llvm::Twine(numStages) + " stages");
  for (auto &list : schedule)
    for (const Instruction &instruction : list) {
      numMicroBatches = std::max(numMicroBatches, instruction.microBatch + 1);
      hasPhase[static_cast<unsigned>(instruction.phase)] = true;
    }
  hasPhase[0] = true;
  std::vector<bool> seen[kNumPhases];
  for (auto &bits : seen)
    bits.resize(numVirtual * numMicroBatches);
  for (int64_t stage = 0; stage < numStages; ++stage)
    for (const Instruction &instruction : schedule[stage]) {
      int64_t virtualStage = instruction.chunk * numStages + stage;
      if (instruction.microBatch < 0 || instruction.chunk < 0 ||
          virtualStage >= numVirtual)
        return scheduleError(describe(stage, instruction) + " does not exist");
      auto &&bit = seen[static_cast<unsigned>(instruction.phase)]
                       [slot(virtualStage, instruction.microBatch)];
      if (bit)
        return scheduleError(describe(stage, instruction) + " occurs twice");
      bit = true;
    }
  for (unsigned phase = 0; phase < kNumPhases; ++phase)
    for (int64_t v = 0; hasPhase[phase] && v < numVirtual; ++v)
      for (int64_t j = 0; j < numMicroBatches; ++j)
        if (!seen[phase][slot(v, j)])
          return scheduleError(
              describe(v % numStages,
                       {static_cast<Phase>(phase), j, v / numStages}) +
              " is missing");
  return llvm::Error::success();
}

Int128 Simulation::ready(int64_t v, const Instruction &instruction) const {
  size_t here = slot(v, instruction.microBatch);
  auto both = [](Int128 a, Int128 b) {
    return a == kNever || b == kNever ? kNever : std::max(a, b);
  };
  switch (instruction.phase) {
  case Phase::Forward:
    return v == 0 ? 0 : arrived[0][slot(v - 1, instruction.microBatch)];
  case Phase::Backward:
    if (v + 1 == numVirtual)
      return ended[0][here];
    return both(ended[0][here],
                arrived[1][slot(v + 1, instruction.microBatch)]);
  case Phase::BackwardWeight:
    return ended[1][here];
  }
  llvm_unreachable("bad Phase");
}

void Simulation::execute(int64_t stage, const Instruction &instruction,
                         Int128 start) {
  int64_t v = instruction.chunk * numStages + stage;
  auto phase = static_cast<unsigned>(instruction.phase);
  int64_t duration = phase == 0   ? times[v].forward
                     : phase == 1 ? times[v].backward
                                  : times[v].backwardWeight;
  Int128 end = start + duration;
  clock[stage] = end;
  spans[stage].push_back({saturate(start), saturate(end)});
  busy[stage] += duration;
  size_t here = slot(v, instruction.microBatch);
  ended[phase][here] = end;
  bool sends = phase == 0 ? v + 1 < numVirtual : phase == 1 && v > 0;
  int64_t send = !sends       ? 0
                 : phase == 0 ? times[v].sendForward
                              : times[v - 1].sendBackward;
  if (send == 0) {
    arrived[phase][here] = end;
    return;
  }
  // All chunks of two stages share the link between them, which carries one
  // message at a time.
  bool back = phase == 1 && numStages > 2;
  Int128 &free = linkFree[2 * stage + back];
  free = std::max(free, end) + send;
  arrived[phase][here] = free;
}

llvm::Expected<ScheduleResult>
kerf::cost::simulate(const Schedule &schedule,
                     llvm::ArrayRef<StageTimes> times) {
  Simulation sim(schedule, times);
  if (llvm::Error error = sim.checkLists())
    return std::move(error);
  for (unsigned phase = 0; phase < kNumPhases; ++phase) {
    sim.ended[phase].assign(sim.numVirtual * sim.numMicroBatches, kNever);
    sim.arrived[phase] = sim.ended[phase];
  }
  sim.linkFree.assign(2 * sim.numStages, 0);
  sim.clock.assign(sim.numStages, 0);
  sim.busy.assign(sim.numStages, 0);
  sim.next.assign(sim.numStages, 0);
  sim.spans.resize(sim.numStages);

  // What a stage finishes may unblock the stages next to it (in a ring, when
  // there are several chunks).
  std::vector<int64_t> work;
  for (int64_t stage = sim.numStages; stage-- > 0;)
    work.push_back(stage);
  while (!work.empty()) {
    int64_t stage = work.back();
    work.pop_back();
    bool moved = false;
    for (size_t &at = sim.next[stage]; at < schedule[stage].size(); ++at) {
      const Instruction &instruction = schedule[stage][at];
      Int128 ready =
          sim.ready(instruction.chunk * sim.numStages + stage, instruction);
      if (ready == kNever)
        break;
      sim.execute(stage, instruction, std::max(ready, sim.clock[stage]));
      moved = true;
    }
    if (moved && sim.numStages > 1) {
      work.push_back((stage + 1) % sim.numStages);
      work.push_back((stage + sim.numStages - 1) % sim.numStages);
    }
  }
  for (int64_t stage = 0; stage < sim.numStages; ++stage)
    if (sim.next[stage] < schedule[stage].size())
      return scheduleError(
          "deadlock: " + describe(stage, schedule[stage][sim.next[stage]]) +
          " can never run");

  ScheduleResult result;
  Int128 makespan = *std::max_element(sim.clock.begin(), sim.clock.end());
  result.makespan = saturate(makespan);
  result.spans = std::move(sim.spans);
  Int128 idleSum = 0;
  // Memory of a micro-batch is free after its last phase.
  Phase last = sim.hasPhase[2] ? Phase::BackwardWeight : Phase::Backward;
  for (int64_t stage = 0; stage < sim.numStages; ++stage) {
    Int128 idle = makespan - sim.busy[stage];
    idleSum += idle;
    result.idle.push_back(saturate(idle));
    int64_t held = 0, max = 0;
    for (const Instruction &instruction : schedule[stage]) {
      if (instruction.phase == Phase::Forward)
        max = std::max(max, ++held);
      if (instruction.phase == last || !sim.hasPhase[1])
        --held;
    }
    result.activationsHeld.push_back(max);
  }
  if (makespan > 0)
    result.bubbleFraction =
        static_cast<double>(idleSum) /
        (static_cast<double>(sim.numStages) * static_cast<double>(makespan));
  return result;
}
