//===- DescribeStep.cpp - what is said of a step's plan -------------------===//
//
// The plan of one kind of a step with the candidates and bounds of all kinds.
//
//===----------------------------------------------------------------------===//
#include "../StepPlanner.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

PlanResult StepPlanner::describe(Variant &variant, Attempt &best) {
  PlanResult result = variant.planner->describe(best);
  for (CandidateSummary &candidate : result.candidates) {
    candidate.recomputeEvery = variant.every;
    candidate.zero = variant.zero;
  }
  for (Variant &other : variants) {
    if (&other == &variant)
      continue;
    result.isCutShort |= other.planner->isCutShort();
    result.lowerBound =
        std::min(result.lowerBound, other.planner->lowerBound());
    for (CandidateSummary &candidate : other.planner->allSummaries()) {
      candidate.recomputeEvery = other.every;
      candidate.zero = other.zero;
      result.candidates.push_back(std::move(candidate));
    }
  }
  result.isCutShort |= options.deadlineSeconds > 0 &&
                       !unmodified().isStopped() && !unsearched.empty();
  for (const Kind &kind : unsearched) {
    CandidateSummary &left = result.candidates.emplace_back();
    left.mesh = best.summary.mesh;
    left.microBatches = best.summary.microBatches;
    left.recomputeEvery = kind.every;
    left.zero = kind.zero;
    left.reason = options.deadlineSeconds > 0 || unmodified().isStopped()
                      ? Planner::whyUnsearched(unmodified().isStopped())
                      : "not searched: others took long, and nothing fitted";
    // They compute at least as much.
    result.lowerBound = std::min(result.lowerBound, unmodified().dividedWork());
  }
  llvm::stable_sort(result.candidates, isBetter);
  // What is predicted to cost less may have been laid out above the limit.
  auto chosen = llvm::find_if(result.candidates, [&](CandidateSummary &each) {
    return each.mesh == best.summary.mesh &&
           each.microBatches == best.summary.microBatches &&
           each.recomputeEvery == variant.every && each.zero == variant.zero;
  });
  if (chosen != result.candidates.end())
    std::rotate(result.candidates.begin(), chosen, std::next(chosen));
  result.gap =
      result.cost > 0 ? (result.cost - result.lowerBound) / result.cost : 0;
  size_t tried = result.candidates.size();
  result.candidateSet = std::to_string(tried) +
                        (tried == 1 ? " mesh" : " meshes") +
                        variant.planner->candidateSetText().str();
  if (options.zero != Zero::None)
    result.candidateSet += ", " + llvm::join(partNames(options.zero), " and ") +
                           " in parts over dp";
  if (mayRecompute())
    result.candidateSet += ", nothing computed again in the backward pass";
  if (mayHoldLess())
    result.candidateSet +=
        "; where the memory limit rules out what is cheapest "
        "then, also ";
  if (mayUseZero())
    result.candidateSet += "ZeRO 1, 2 and 3 over dp";
  if (mayRecompute())
    result.candidateSet +=
        std::string(mayUseZero() ? ", " : "") +
        "all blocks of the forward pass computed again, every second and every "
        "fourth" +
        (mayUseZero() ? ", and all of them with ZeRO 3" : "");
  return result;
}

std::vector<CandidateSummary> StepPlanner::endings() const {
  std::vector<CandidateSummary> all = summaries();
  for (CandidateSummary &summary : all)
    if (auto bytes = laidOut.find(nameOf(summary)); bytes != laidOut.end()) {
      summary.reason = kLaidOutAbove;
      summary.peakMemoryBytes = bytes->second;
    }
  return all;
}

std::string StepPlanner::microBatchesNote() const {
  std::string whyNot = unmodified().whyNoMicroBatches();
  if (whyNot.empty() || options.microBatches || !memoryLimitOf(options))
    return "";
  return "\nnote: micro-batches, which hold less at a time, were not looked "
         "at: " +
         whyNot +
         (unmodified().mayAskForMicroBatches()
              ? "; option micro-batches=M asks for them (BatchNorm then has "
                "the statistics of each)"
              : "");
}

std::string StepPlanner::refusal() const {
  return (unmodified().isStopped()
              ? "planning was ended before there was a plan"
              : "no plan was found") +
         std::string(" that fits in memory: the smallest that was laid out, ") +
         minLaidOutName + ", needs " + bytesText(minLaidOutBytes) +
         " per device, the limit is " + bytesText(*memoryLimitOf(options)) +
         candidateNotes(endings(), *memoryLimitOf(options)) +
         (unmodified().isStopped()
              ? ""
              : holdsLessNote(options, unmodified().hasMoreMicroBatches(),
                              /*isProven=*/false, /*isOfAll=*/false)) +
         (isCutShort() && !unmodified().isStopped()
              ? "\nnote: the search ended at its time: there may be a plan "
                "that a longer option deadline finds"
              : "") +
         microBatchesNote();
}
