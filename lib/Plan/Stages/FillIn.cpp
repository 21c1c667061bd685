//===- FillIn.cpp - what stages cost, and in which order they run ---------===//
#include "Cutter.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
using namespace kerf::plan::cutter;

void Cutter::fillIn(const std::vector<size_t> &cuts) {
  size_t p = candidate.stages;
  countWork(
      request.effort, WorkPiece::OpOfStage,
      2 * static_cast<double>(llvm::range_size(function.getBody().front())));
  std::vector<Load> loads(places);
  for (size_t place = 0; place < places; ++place)
    for (size_t i = cuts[place]; i < cuts[place + 1]; ++i) {
      loads[place].add(groups[i].load);
      for (Operation *op : groups[i].ops)
        plan.placeOf[op] = static_cast<int64_t>(place);
    }
  auto placeOf = [&](Operation *op) {
    auto found = plan.placeOf.find(op);
    return found == plan.placeOf.end() ? int64_t(-1) : found->second;
  };
  // Each stage brings a source or argument to its shared layout by itself, once
  // per step or for each of its chunks.
  auto repeat = [&](Value value) {
    size_t first = firstGroup(value);
    if (first == groups.size())
      return;
    int64_t maker = placeOf(groups[first].ops.front());
    StepPhase phase = stepPhaseOf(graph.sharedPhase(value));
    llvm::SmallDenseSet<int64_t> known = {maker % candidate.stages};
    for (int64_t place : otherPlaces(value, maker, placeOf))
      if (phase != Once || known.insert(place % candidate.stages).second)
        loads[place].add(phase, graph.sharedCostOf(solution, value));
  };
  std::vector<cost::StageTimes> times(places);
  for (BlockArgument argument : function.getArguments())
    repeat(argument);
  for (Operation &op : function.getBody().front())
    if (isa<SourceOpInterface>(op))
      for (Value result : op.getResults())
        repeat(result);
  forEachPass([&](StepPass pass, const Graph::OpCost &cost,
                  ArrayRef<size_t> readers) {
    auto placeOfGroup = [&](size_t group) {
      return placeOf(groups[group].ops.front());
    };
    // Groups are in the order of places.
    for (auto [before, reader] : llvm::zip(readers, llvm::drop_begin(readers)))
      if (placeOfGroup(before) != placeOfGroup(reader))
        loads[placeOfGroup(reader)].add(stepPhaseOf(pass), cost);
  });
  StageTraffic traffic = trafficOf(graph, solution, function, placeOf);
  for (const StageTraffic::Send &send : traffic.sends) {
    double seconds = sendSeconds(send.bytes);
    if (send.times != micro ||
        (batch.isTraining() && batch.isOfStep(send.value))) {
      loads[send.from].move[Once] += seconds * static_cast<double>(send.times);
      continue;
    }
    // To the next places forward, to those before backward.
    Operation *maker = send.value.getDefiningOp();
    int64_t from = placeOf(maker);
    if (stepPhaseOf(dist::getPhase(maker)) == Forward)
      times[from].sendForward += cost::toPicoseconds(seconds);
    else
      times[from - 1].sendBackward += cost::toPicoseconds(seconds);
  }
  for (size_t stage = 0; stage < p; ++stage) {
    Load load;
    StageSummary summary;
    summary.index = static_cast<int64_t>(stage);
    for (size_t place = stage; place < places; place += p) {
      load.add(loads[place]);
      for (size_t i = cuts[place]; i < cuts[place + 1]; ++i)
        summary.nodes += static_cast<int64_t>(groups[i].ops.size());
    }
    summary.flops = cost::saturate(load.flops * candidate.devicesPerStage());
    summary.seconds = load.seconds();
    double compute = load.compute[0] + load.compute[1] + load.compute[2];
    plan.computeSeconds = std::max(plan.computeSeconds, compute);
    plan.communicationSeconds = std::max(
        plan.communicationSeconds, load.move[0] + load.move[1] + load.move[2]);
    plan.bytesPerRank =
        std::max(plan.bytesPerRank,
                 cost::saturate(cost::ceilDivide(traffic.scaledBytes[stage],
                                                 graph.getByteScale())));
    plan.totalBytes =
        cost::saturate(cost::Int128(plan.totalBytes) + traffic.total[stage]);
    plan.stages.push_back(summary);
  }
  chooseSchedule(loads, times);
}

SmallVector<cost::ScheduleKind> Cutter::kindsOfSchedule() const {
  using cost::ScheduleKind;
  if (!batch.isTraining())
    return {ScheduleKind::Forward};
  if (plan.chunks > 1)
    return {ScheduleKind::Interleaved};
  if (options.schedule && *options.schedule != ScheduleKind::Interleaved)
    return {*options.schedule};
  return {ScheduleKind::OneFOneB, ScheduleKind::GPipe};
}

void Cutter::chooseSchedule(const std::vector<Load> &loads,
                            std::vector<cost::StageTimes> &times) {
  std::vector<double> onceOf(candidate.stages, 0);
  for (auto [place, load, time] : llvm::enumerate(loads, times)) {
    auto perMicroBatch = [&, &load = load](StepPhase phase) {
      return cost::toPicoseconds((load.compute[phase] + load.move[phase]) /
                                 static_cast<double>(micro));
    };
    time.forward = perMicroBatch(Forward);
    time.backward = perMicroBatch(Backward);
    onceOf[place % candidate.stages] += load.compute[Once] + load.move[Once];
  }
  double once = *llvm::max_element(onceOf);
  std::optional<cost::ScheduleResult> best;
  for (cost::ScheduleKind kind : kindsOfSchedule()) {
    auto simulated = cost::simulate(
        cost::buildSchedule(kind, candidate.stages, micro, plan.chunks), times);
    if (!simulated) {
      plan.reason = llvm::toString(simulated.takeError());
      return;
    }
    if (best && best->makespan <= simulated->makespan)
      continue;
    best = std::move(*simulated);
    plan.schedule = kind;
  }
  plan.stepSeconds = cost::fromPicoseconds(best->makespan) + once;
  plan.bubbleFraction = best->bubbleFraction;
  plan.feasible = true;
  cost::Schedule schedule =
      cost::buildSchedule(plan.schedule, candidate.stages, micro, plan.chunks);
  for (auto [summary, list, spans] :
       llvm::zip(plan.stages, schedule, best->spans))
    for (auto [run, span] : llvm::zip(list, spans))
      summary.runs.push_back({run.phase, run.microBatch, run.chunk,
                              cost::fromPicoseconds(span.begin),
                              cost::fromPicoseconds(span.end)});
}

void Cutter::addMemory() {
  if (!plan.feasible || !plan.memory.empty())
    return;
  StageMap map;
  map.stages = candidate.stages;
  map.chunks = plan.chunks;
  map.microBatches = micro;
  map.schedule =
      cost::buildSchedule(plan.schedule, candidate.stages, micro, plan.chunks);
  auto placeOf = [&](Operation *op) {
    auto found = plan.placeOf.find(op);
    return found == plan.placeOf.end() ? candidate.stages - 1 : found->second;
  };
  map.placeOf = placeOf;
  countWork(
      request.effort, WorkPiece::OpOfStage,
      static_cast<double>(candidate.stages + 1) *
          static_cast<double>(llvm::range_size(function.getBody().front())));
  plan.memory = stageMemory(graph, solution, function, map);
}
