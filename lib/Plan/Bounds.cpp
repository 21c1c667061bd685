//===- Bounds.cpp - what any plan costs at least --------------------------===//
//
// Bounds on a candidate from what its Problem costs, on candidates that nobody
// looked at from the work that has to be done, and on all of them together.
//
//===----------------------------------------------------------------------===//
#include "Planner.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

StageBounds &Planner::stageBounds(const MeshCandidate &candidate) {
  auto &known = bounds[{candidate.stages, candidate.devicesPerStage()}];
  if (!known)
    known = std::make_unique<StageBounds>(function, candidate, options, batch);
  return *known;
}

const MinTotals &Planner::wholeWork() {
  if (!knownWork) {
    // Nothing is placed on one device, so hints are of no matter.
    MeshCandidate one;
    PlanOptions own = options;
    own.hints.clear();
    knownWork = Graph(function, rules, one, own, batch, dimBlocks, names, floor,
                      traffic, zero, ways)
                    .minTotals();
  }
  return *knownWork;
}

double Planner::divided(double picoseconds, int64_t devices,
                        int64_t microBatches) {
  // What an op costs on a device is rounded to picoseconds, for each
  // micro-batch.
  auto rounded = static_cast<double>(
      llvm::range_size(function.getBody().front()) * microBatches);
  double work = picoseconds * (1 - 1e-9) / static_cast<double>(devices);
  return std::max(work - 0.5 * rounded, 0.0) * 1e-12;
}

double Planner::dividedWork() {
  if (options.objective != Objective::Time)
    return 0;
  return divided(static_cast<double>(wholeWork().all()), options.devices,
                 maxMicroBatches);
}

double Planner::workBound(const MeshCandidate &candidate) {
  int64_t devices = candidate.devicesPerStage();
  MinTotals whole = wholeWork();
  if (candidate.stages == 1 || !batch.isTraining())
    return divided(static_cast<double>(whole.all()), devices,
                   candidate.microBatches);
  // A stage's devices have at least their part of what its ops do, and a
  // micro-batch is an M-th of the batch.
  cost::StepShares weights = stepWeights(candidate, batch, options);
  return weights.perMicroBatch *
             divided(static_cast<double>(whole.perMicroBatch) /
                         static_cast<double>(candidate.microBatches),
                     devices, candidate.microBatches) +
         weights.perStep * divided(static_cast<double>(whole.perStep), devices,
                                   candidate.microBatches);
}

double Planner::boundOf(const MeshCandidate &candidate, double problemCost) {
  if (options.objective == Objective::Time) {
    double seconds = std::max(problemCost * 1e-12, workBound(candidate));
    return std::max(stepBound(candidate, batch, seconds), dividedWork());
  }
  if (options.solver == SolverKind::Random)
    return 0;
  double bytes =
      problemCost / static_cast<double>(byteScaleOf(function, candidate));
  // Stages of several chunks are no contiguous runs. The busiest rank sends at
  // least the mean of what the whole Problem moves.
  if (candidate.isInterleaved())
    return bytes / static_cast<double>(candidate.stages);
  return candidate.stages == 1 ? bytes : stageBounds(candidate).minBytes(bytes);
}

std::optional<Sum> Planner::cutoffFor(const MeshCandidate &candidate) {
  double best = incumbent();
  if (std::isinf(best))
    return std::nullopt;
  if (boundOf(candidate, 0) > best)
    return 0;
  double max;
  if (options.objective == Objective::Time) {
    max = best / stepBound(candidate, batch, 1) * 1e12;
  } else {
    max = best;
    if (candidate.isInterleaved())
      max *= static_cast<double>(candidate.stages);
    else if (candidate.stages > 1)
      max = stageBounds(candidate).maxWithin(best);
    max *= static_cast<double>(byteScaleOf(function, candidate));
  }
  max = max * (1 + 1e-12) + 1; // keeps solutions of equal cost
  if (max > 9e17)
    return std::nullopt;
  return static_cast<Sum>(max) + 1;
}

void Planner::sharpenBounds() {
  if (options.objective != Objective::Volume ||
      options.solver != SolverKind::Auto)
    return;
  double best = incumbent(), until = timeToLookBack();
  auto left = [&] { return until - elapsed(); };
  // A bound on stages holds for the meshes and micro-batches that the Problem's
  // choices can express, so each candidate has its own.
  for (Attempt &attempt : attempts) {
    const MeshCandidate &candidate = attempt.graph->candidate;
    if (candidate.stages == 1 || candidate.isInterleaved() ||
        attempt.isImpossible || candidate.devicesPerStage() == 1 ||
        attempt.solved.status == Status::Infeasible ||
        !attempt.graph->getError().empty() ||
        attempt.summary.lowerBound >= best || left() <= 0 || isStopped())
      continue;
    StageBounds closer(function, candidate, options, batch);
    closer.sharpen(*attempt.graph,
                   left() / static_cast<double>(candidate.stages),
                   countedEffort());
    attempt.summary.lowerBound =
        std::max(attempt.summary.lowerBound, closer.minBytes(0));
  }
}

bool Planner::isOutOfReach() const {
  std::optional<int64_t> limit = memoryLimitOf(options);
  // Which hint cannot be satisfied is found out by each candidate.
  return limit && options.solver == SolverKind::Auto && options.hints.empty() &&
         minHeldPerDevice() > *limit;
}

/// Bytes that the fullest device of any plan needs at least, as far as the
/// search found out; 0: unknown.
int64_t Planner::minMemory() const {
  if (isOutOfReach())
    return minHeldPerDevice();
  if (!dismissed.empty())
    return 0;
  std::optional<Sum> min;
  for (const Attempt &attempt : attempts) {
    if (!attempt.graph || attempt.isImpossible ||
        !attempt.graph->getError().empty())
      continue;
    // Without a proven minimum for this candidate there is none for all.
    if (attempt.solved.minNeeded.empty())
      return 0;
    Sum needed = attempt.solved.minNeeded[Graph::Memory];
    needed = (needed + attempt.graph->candidate.stages - 1) /
             attempt.graph->candidate.stages;
    if (!min || needed < *min)
      min = needed;
  }
  return min ? cost::saturate(*min) : 0;
}

double Planner::lowerBound() const {
  double min = std::numeric_limits<double>::infinity();
  for (const Attempt &attempt : attempts)
    if (attempt.solved.status != Status::Infeasible &&
        attempt.graph->getError().empty())
      min = std::min(min, attempt.summary.lowerBound);
  for (const CandidateSummary &summary : unsearched)
    min = std::min(min, summary.lowerBound);
  for (const Dismissed &noted : dismissed)
    min = std::min(min, noted.summary.lowerBound);
  // Bytes are integers.
  return options.objective == Objective::Time || std::isinf(min)
             ? min
             : std::ceil(min - 1e-3);
}
