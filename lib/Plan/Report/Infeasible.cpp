//===- Infeasible.cpp - why there is no plan ------------------------------===//
//
// Constraints are dropped one after another: first all limits, then hints, then
// each limit alone. The message names the smallest plan that any of the
// searches has found, with its predicted memory. Each search has a limit of a
// few seconds; nothing is reported that it has not proven.
//
//===----------------------------------------------------------------------===//
#include "Infeasible.h"

#include "../Model/ColocationGroups.h"

#include "kerf/Support/Units.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace kerf;
using namespace kerf::plan;

std::optional<int64_t> kerf::plan::memoryLimitOf(const PlanOptions &options) {
  if (options.memoryLimitBytes)
    return options.memoryLimitBytes;
  int64_t bytes = options.machine.memoryBytesPerDevice;
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

std::string kerf::plan::atLeast(Objective objective, double bound) {
  std::string text =
      objective == Objective::Time ? formatSeconds(bound) : formatBytes(bound);
  return "costs at least " + text + ", more than another";
}

std::string kerf::plan::bytesText(int64_t bytes) {
  return std::to_string(bytes) + " bytes" +
         (bytes < 1024 ? ""
                       : " (" + formatBytes(static_cast<double>(bytes)) + ")");
}

std::string kerf::plan::nameOf(const CandidateSummary &candidate) {
  std::string name;
  for (const auto &[axis, size] : candidate.mesh)
    name += (name.empty() ? "" : ",") + axis + "=" + std::to_string(size);
  if (name.empty())
    name = "one device";
  if (candidate.microBatches > 1)
    name +=
        " with " + std::to_string(candidate.microBatches) + " micro-batches";
  if (candidate.recomputeEvery == 1)
    name += " with all blocks computed again";
  else if (candidate.recomputeEvery > 1)
    name += " with one of " + std::to_string(candidate.recomputeEvery) +
            " blocks computed again";
  if (candidate.zero != Zero::None)
    name += " with ZeRO " + toString(candidate.zero).str();
  return name;
}

std::string
kerf::plan::candidateNotes(llvm::ArrayRef<CandidateSummary> candidates,
                           int64_t limit) {
  constexpr size_t kReasons = 6, kCandidates = 3;
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  struct Ending {
    std::string reason;
    std::vector<const CandidateSummary *> candidates;
  };
  auto bytesOf = [](const CandidateSummary *candidate) {
    return candidate->peakMemoryBytes > 0 ? candidate->peakMemoryBytes
                                          : kUnknown;
  };
  std::vector<Ending> endings;
  for (const CandidateSummary &candidate : candidates) {
    if (candidate.reason.empty())
      continue;
    auto known = llvm::find_if(endings, [&](const Ending &ending) {
      return ending.reason == candidate.reason;
    });
    if (known == endings.end())
      known = endings.insert(known, {candidate.reason, {}});
    known->candidates.push_back(&candidate);
  }
  // What is closest to a limit comes first.
  for (Ending &ending : endings)
    llvm::stable_sort(ending.candidates, [&](auto *a, auto *b) {
      return bytesOf(a) < bytesOf(b);
    });
  llvm::stable_sort(endings, [&](const Ending &a, const Ending &b) {
    return bytesOf(a.candidates.front()) < bytesOf(b.candidates.front());
  });
  std::string notes;
  for (const Ending &ending : llvm::ArrayRef(endings).take_front(kReasons)) {
    std::vector<std::string> names;
    for (const CandidateSummary *candidate :
         llvm::ArrayRef(ending.candidates).take_front(kCandidates))
      names.push_back(nameOf(*candidate) +
                      (bytesOf(candidate) == kUnknown
                           ? ""
                           : " (" +
                                 formatBytesBeside(double(bytesOf(candidate)),
                                                   double(limit)) +
                                 ")"));
    if (ending.candidates.size() > kCandidates)
      names.push_back("and " +
                      std::to_string(ending.candidates.size() - kCandidates) +
                      " more");
    notes += "\nnote: " + llvm::join(names, "; ") + ": " + ending.reason;
  }
  if (size_t left = endings.size() - std::min(kReasons, endings.size()))
    notes += "\nnote: and " + std::to_string(left) +
             (left == 1 ? " more reason" : " more reasons") +
             " of other meshes";
  return notes;
}

std::string kerf::plan::holdsLessNote(const PlanOptions &options, bool hasMore,
                                      bool isProven, bool isOfAll) {
  // Cut as finely as can be it is too much.
  if (isOfAll)
    return "\nnote: with more devices each holds less";
  return "\nnote: with more devices, or more tp or pp in option mesh," +
         (hasMore ? " or more micro-batches than option " +
                        options.microBatchesOption + " asks for,"
                  : "") +
         " each device holds less" +
         (isProven || !options.mesh.empty()
              ? ""
              : "; a mesh that option mesh fixes is searched for longer") +
         (isProven ? ""
                   : "; not every plan was looked at, so one that fits may "
                     "exist");
}

static PlanOptions withoutMemoryLimit(PlanOptions options) {
  options.memoryLimitBytes.reset();
  options.machine.memoryBytesPerDevice = 0;
  return options;
}

static PlanOptions withAnyShare(PlanOptions options) {
  options.anyShareOfWork = true;
  return options;
}

using TryVerdict = llvm::function_ref<Trial(const PlanOptions &options)>;

/// A minimal set of hints that conflict. One search per hint.
static std::vector<ShardHint> conflictingHints(PlanOptions options,
                                               TryVerdict tryPlan) {
  for (size_t i = options.hints.size(); i-- > 0;) {
    PlanOptions fewer = options;
    fewer.hints.erase(fewer.hints.begin() + static_cast<std::ptrdiff_t>(i));
    if (tryPlan(fewer) == Trial::None)
      options = std::move(fewer);
  }
  return options.hints;
}

/// Looks for small plans under limits between what had no plan and the smallest
/// plan so far, `minBytes`, which the trials lower.
static void findSmall(PlanOptions options, int64_t tooLittle,
                      const int64_t &minBytes,
                      llvm::function_ref<bool()> isOver, TryVerdict tryPlan) {
  constexpr int kTrials = 6;
  constexpr double kClose = 1.1;
  auto low = static_cast<double>(tooLittle);
  for (int trial = 0; trial < kTrials && !isOver(); ++trial) {
    auto high = static_cast<double>(minBytes);
    if (high <= kClose * low)
      return;
    double middle = std::sqrt(std::max(low, 1.0)) * std::sqrt(high);
    options.memoryLimitBytes = static_cast<int64_t>(middle);
    if (tryPlan(options) != Trial::Found)
      low = middle;
  }
}

Infeasibility kerf::plan::explainInfeasible(
    const PlanOptions &given, MemoryNeeds needs, const std::string &notes,
    bool isCutShort, bool hasMore, const Effort &effort, TryPlan tryOut) {
  Infeasibility result;
  PlanOptions options = given;
  auto tryPlan = [&](const PlanOptions &trial) {
    Tried tried = tryOut(trial);
    // A plan that divides the work otherwise is none.
    if (isWorkWaived(given) || given.objective == Objective::Time ||
        !trial.anyShareOfWork)
      needs.predicted = std::min(needs.predicted, tried.minBytes);
    return tried.verdict;
  };
  std::optional<int64_t> limit = memoryLimitOf(options);
  auto bytes = [](int64_t count) { return bytesText(count) + " per device"; };
  auto isKnown = [&] {
    return needs.predicted < std::numeric_limits<int64_t>::max();
  };
  auto smallest = [&](const char *before) {
    return limit && isKnown()
               ? before + ("the smallest plan that is known is predicted to "
                           "need about " +
                           bytes(needs.predicted))
               : std::string();
  };
  constexpr double trialSeconds = 5, smallSeconds = 2, allSeconds = 12;
  double start = effort.seconds();
  options.deadlineIsOfEffort |= options.deadlineSeconds <= 0;
  options.deadlineSeconds =
      options.deadlineSeconds > 0
          ? std::min(options.deadlineSeconds, trialSeconds)
          : trialSeconds;
  // A failed random draw proves nothing about other draws.
  bool isRandom = options.solver == SolverKind::Random;
  options.solver = SolverKind::Auto;
  if (isRandom && tryPlan(options) == Trial::Found) {
    result.message =
        "the random solver found no plan" + notes +
        "\nnote: there are plans: option solver=auto finds one, and "
        "another option seed may";
    return result;
  }
  PlanOptions unlimited = withAnyShare(withoutMemoryLimit(options));
  Trial possible = tryPlan(unlimited);
  if (possible == Trial::Unknown) {
    bool asksForStages = llvm::any_of(
        options.hints, [](const ShardHint &hint) { return stageOf(hint); });
    result.message =
        (asksForStages ? "no cut was found that keeps the stages which option "
                         "shard asks for"
                       : "no plan was found in the time that there was" +
                             smallest("; ")) +
        notes +
        (isCutShort && !asksForStages ? "\nnote: option deadline gives it more"
                                      : "");
    return result;
  }
  if (possible == Trial::None) {
    result.error = PlanError::BadRequest;
    PlanOptions unhinted = unlimited;
    unhinted.hints.clear();
    if (options.hints.empty() || tryPlan(unhinted) == Trial::None) {
      // The number of micro-batches may divide the batch, but not the batch
      // dimension of some op (a Reshape).
      PlanOptions anyNumber = unhinted;
      anyNumber.microBatches.reset();
      if (options.microBatches.value_or(1) > 1 &&
          tryPlan(anyNumber) == Trial::Found) {
        result.message = "option " + options.microBatchesOption +
                         ": the model cannot be cut into " +
                         std::to_string(*options.microBatches) +
                         " along its batch" + notes +
                         "\nnote: there are plans with other numbers of them";
        return result;
      }
      result.message =
          (options.mesh.empty() && !options.microBatches
               ? "no plan exists for these devices"
               : std::string("no plan exists for the mesh that is asked for")) +
          notes;
      return result;
    }
    std::vector<ShardHint> hints = conflictingHints(unlimited, tryPlan);
    result.message = hints.size() == 1
                         ? "option shard: no plan keeps this hint"
                         : "option shard: these hints contradict each other";
    for (const ShardHint &hint : hints)
      result.message += "\nnote: '" + hint.pattern + "=" + hint.sharding + "'";
    return result;
  }
  // Shares of the work are asked for where bytes are minimised.
  bool fitsWork = given.objective == Objective::Time
                      ? possible == Trial::Found
                      : tryPlan(withoutMemoryLimit(options)) == Trial::Found;
  Trial inMemory = limit ? tryPlan(withAnyShare(options)) : Trial::Found;
  std::string share = "in each one device would compute more than 1.1/" +
                      std::to_string(options.devices) + " of the operations";
  std::string waive =
      "\nnote: option objective=time has no such limit, nor has a "
      "mesh that option mesh fixes";
  if (inMemory == Trial::Found) {
    result.message =
        (fitsWork ? "no plan both fits in memory and divides the "
                    "work: where it fits, one device would "
                    "compute more than 1.1/" +
                        std::to_string(options.devices) + " of the operations"
                  : "no plan divides the work: " + share) +
        notes + waive;
    return result;
  }
  // What fits was seen, but no plan was made of it, or nothing was seen at all:
  // that is no matter of memory.
  if (isCutShort && inMemory != Trial::None && needs.proven <= *limit &&
      (!isKnown() || needs.predicted <= *limit)) {
    result.message = "no plan was found in the time that planning had" +
                     smallest("; ") + notes +
                     "\nnote: option deadline gives it more";
    return result;
  }
  bool isProven = inMemory == Trial::None || needs.proven > *limit;
  if (needs.predicted > *limit) {
    PlanOptions shorter = options;
    shorter.deadlineSeconds = std::min(options.deadlineSeconds, smallSeconds);
    findSmall(
        shorter, std::max(needs.proven, *limit), needs.predicted,
        [&] { return effort.seconds() - start > allSeconds; }, tryPlan);
  }
  if (isProven)
    result.message =
        "no plan fits in memory: " +
        (needs.proven > *limit
             ? (needs.isOfAll ? "every plan"
                              : "every plan that is searched for") +
                   std::string(" needs at least ") + bytes(needs.proven)
             : std::string("that is proven for each mesh"));
  else if (isKnown() && needs.predicted <= *limit)
    result.message =
        "no plan was found, though one was seen that is predicted to need " +
        bytes(needs.predicted);
  else
    result.message =
        "no plan was found that fits in memory: " +
        (isKnown() ? "the smallest that was found is predicted to need about " +
                         bytes(needs.predicted)
                   : std::string("none is proven not to"));
  result.message += ", the limit is " + bytes(*limit) +
                    (isProven ? smallest(", and ") : "") + notes +
                    holdsLessNote(given, hasMore, isProven, needs.isOfAll);
  if (!isProven && isCutShort)
    result.message += "\nnote: the search ended at its time: there may be a "
                      "plan that a longer option deadline finds";
  if (isKnown() && needs.predicted > *limit)
    result.message += "\nnote: what is predicted is laid out at the end, and "
                      "may then need less or more (from 27% less to a third "
                      "more was seen)";
  return result;
}
