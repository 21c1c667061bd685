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
/// plan so far, which the trials lower.
static void findSmall(PlanOptions options, int64_t tooLittle,
                      const SmallestPlan &smallest,
                      llvm::function_ref<bool()> isOver, TryVerdict tryPlan) {
  constexpr int kTrials = 6;
  constexpr double kClose = 1.1;
  auto low = static_cast<double>(tooLittle);
  for (int trial = 0; trial < kTrials && !isOver(); ++trial) {
    auto high = static_cast<double>(smallest.bytes);
    if (high <= kClose * low)
      return;
    double middle = std::sqrt(std::max(low, 1.0)) * std::sqrt(high);
    options.memoryLimitBytes = static_cast<int64_t>(middle);
    if (tryPlan(options) != Trial::Found)
      low = middle;
  }
}

static std::string perDevice(int64_t bytes) {
  return bytesText(bytes) + " per device";
}

namespace {

/// Finds out by trials which constraints leave no plan: hints and mesh first,
/// then the division of the work, then memory.
class Diagnosis {
public:
  Diagnosis(const PlanOptions &given, MemoryNeeds needs,
            const std::string &notes, bool isCutShort, bool hasMore,
            const Effort &effort, TryPlan tryOut)
      : given(given), options(given), needs(needs), notes(notes),
        isCutShort(isCutShort), hasMore(hasMore), effort(effort),
        tryOut(tryOut), limit(memoryLimitOf(given)), start(effort.seconds()) {
    constexpr double kTrialSeconds = 5;
    options.deadlineIsOfEffort |= options.deadlineSeconds <= 0;
    options.deadlineSeconds =
        options.deadlineSeconds > 0
            ? std::min(options.deadlineSeconds, kTrialSeconds)
            : kTrialSeconds;
    options.solver = SolverKind::Auto;
  }

  Infeasibility explain();

private:
  Trial tryPlan(const PlanOptions &trial);
  /// Whether the size of any plan is known.
  bool isKnown() const { return needs.smallest.isKnown(); }
  /// Of the smallest plan that is known, behind `before`; empty: none is.
  std::string smallestText(const char *before) const {
    return limit && isKnown()
               ? before + ("the smallest plan that is known is predicted to "
                           "need about " +
                           ofSmallest())
               : std::string();
  }
  /// What the smallest plan takes, and which it is.
  std::string ofSmallest() const {
    return perDevice(needs.smallest.bytes) +
           (given.devices > 1 ? " (" + nameOf(needs.smallest.candidate) + ")"
                              : "");
  }
  std::string timeOver() const;
  Infeasibility contradiction(const PlanOptions &unlimited);
  std::string unevenWork(bool fitsWork) const;
  std::string tooMuchMemory(Trial inMemory);

  const PlanOptions &given;
  PlanOptions options; ///< of the trials
  MemoryNeeds needs;   ///< the trials lower the smallest
  const std::string &notes;
  bool isCutShort, hasMore;
  const Effort &effort;
  TryPlan tryOut;
  std::optional<int64_t> limit;
  double start;
};

} // namespace

Trial Diagnosis::tryPlan(const PlanOptions &trial) {
  Tried tried = tryOut(trial);
  // A plan that divides the work otherwise is none.
  if (isWorkWaived(given) || given.objective == Objective::Time ||
      !trial.anyShareOfWork)
    needs.smallest.consider(tried.smallest);
  return tried.verdict;
}

/// Even without limits on memory and work nothing was found, nor proven.
std::string Diagnosis::timeOver() const {
  bool asksForStages = llvm::any_of(
      options.hints, [](const ShardHint &hint) { return stageOf(hint); });
  if (asksForStages)
    return "no cut was found that keeps the stages which option shard asks "
           "for" +
           notes;
  return "no plan was found in the time that there was" + smallestText("; ") +
         notes + (isCutShort ? "\nnote: option deadline gives it more" : "");
}

/// Even without limits on memory and work there is no plan: hints, the mesh or
/// the number of micro-batches are at fault.
Infeasibility Diagnosis::contradiction(const PlanOptions &unlimited) {
  auto tryAgain = [&](const PlanOptions &trial) { return tryPlan(trial); };
  PlanOptions unhinted = unlimited;
  unhinted.hints.clear();
  if (options.hints.empty() || tryPlan(unhinted) == Trial::None) {
    // The number of micro-batches may divide the batch, but not the batch
    // dimension of some op (a Reshape).
    PlanOptions anyNumber = unhinted;
    anyNumber.microBatches.reset();
    if (options.microBatches.value_or(1) > 1 &&
        tryPlan(anyNumber) == Trial::Found)
      return {PlanError::BadRequest,
              "option " + options.microBatchesOption +
                  ": the model cannot be cut into " +
                  std::to_string(*options.microBatches) + " along its batch" +
                  notes + "\nnote: there are plans with other numbers of them"};
    return {
        PlanError::BadRequest,
        (options.mesh.empty() && !options.microBatches
             ? "no plan exists for these devices"
             : std::string("no plan exists for the mesh that is asked for")) +
            notes};
  }
  std::vector<ShardHint> hints = conflictingHints(unlimited, tryAgain);
  std::string message = hints.size() == 1
                            ? "option shard: no plan keeps this hint"
                            : "option shard: these hints contradict each other";
  for (const ShardHint &hint : hints)
    message += "\nnote: '" + hint.pattern + "=" + hint.sharding + "'";
  return {PlanError::BadRequest, message};
}

/// There are plans in memory, but they do not divide the work. `fitsWork`:
/// others do, which do not fit in memory.
std::string Diagnosis::unevenWork(bool fitsWork) const {
  std::string count = std::to_string(options.devices);
  return (fitsWork ? "no plan both fits in memory and divides the "
                     "work: where it fits, one device would "
                     "compute more than 1.1/" +
                         count + " of the operations"
                   : "no plan divides the work: in each one device would "
                     "compute more than 1.1/" +
                         count + " of the operations") +
         notes +
         "\nnote: option objective=time has no such limit, nor has a "
         "mesh that option mesh fixes";
}

/// No plan in memory was found. None: that is proven.
std::string Diagnosis::tooMuchMemory(Trial inMemory) {
  // What fits was seen, but no plan was made of it, or nothing was seen at all:
  // that is no matter of memory.
  if (isCutShort && inMemory != Trial::None && needs.proven <= *limit &&
      (!isKnown() || needs.smallest.bytes <= *limit))
    return "no plan was found in the time that planning had" +
           smallestText("; ") + notes + "\nnote: option deadline gives it more";
  bool isProven = inMemory == Trial::None || needs.proven > *limit;
  int64_t smallestBefore = isKnown() ? needs.smallest.bytes : 0;
  if (needs.smallest.bytes > *limit) {
    // A sum of sizes needs no search: whoever asks for a plan in less waits for
    // the answer alone.
    const double kTrialSeconds = 2, kAllSeconds = needs.isOfAll ? 4 : 12;
    PlanOptions shorter = options;
    shorter.deadlineSeconds = std::min(options.deadlineSeconds, kTrialSeconds);
    findSmall(
        shorter, std::max(needs.proven, *limit), needs.smallest,
        [&] { return effort.seconds() - start > kAllSeconds; },
        [&](const PlanOptions &trial) { return tryPlan(trial); });
  }
  std::string message;
  if (isProven)
    message =
        "no plan fits in memory: " +
        (needs.proven > *limit
             ? (needs.isOfAll ? "every plan"
                              : "every plan that is searched for") +
                   std::string(" needs at least ") + perDevice(needs.proven)
             : std::string("that is proven for each mesh"));
  else if (isKnown() && needs.smallest.bytes <= *limit)
    message = "no plan was found, though one was seen that is predicted to "
              "need " +
              ofSmallest();
  else
    message =
        "no plan was found that fits in memory: " +
        (isKnown() ? "the smallest that was found is predicted to need about " +
                         ofSmallest() +
                         (needs.smallest.bytes < smallestBefore
                              ? ", which a search for small plans alone found"
                              : "")
                   : std::string("none is proven not to"));
  message += ", the limit is " + perDevice(*limit) +
             (isProven ? smallestText(", and ") : "") + notes +
             holdsLessNote(given, hasMore, isProven, needs.isOfAll);
  if (!isProven && isCutShort)
    message += "\nnote: the search ended at its time: there may be a "
               "plan that a longer option deadline finds";
  if (isKnown() && needs.smallest.bytes > *limit)
    message +=
        std::string("\nnote: what is predicted is laid out at the end, and "
                    "may then need less or more (from 30% less, recurrent "
                    "models, to a third more was seen)") +
        (isProven ? ""
                  : ": a plan made without the limit says what is laid "
                    "out");
  return message;
}

Infeasibility Diagnosis::explain() {
  auto infeasible = [](std::string message) {
    return Infeasibility{PlanError::Infeasible, std::move(message)};
  };
  // A failed random draw proves nothing about other draws.
  if (given.solver == SolverKind::Random && tryPlan(options) == Trial::Found)
    return infeasible("the random solver found no plan" + notes +
                      "\nnote: there are plans: option solver=auto finds one, "
                      "and another option seed may");
  PlanOptions unlimited = withAnyShare(withoutMemoryLimit(options));
  Trial possible = tryPlan(unlimited);
  if (possible == Trial::Unknown)
    return infeasible(timeOver());
  if (possible == Trial::None)
    return contradiction(unlimited);
  // Shares of the work are asked for where bytes are minimised.
  bool fitsWork = given.objective == Objective::Time ||
                  tryPlan(withoutMemoryLimit(options)) == Trial::Found;
  Trial inMemory = limit ? tryPlan(withAnyShare(options)) : Trial::Found;
  return infeasible(inMemory == Trial::Found ? unevenWork(fitsWork)
                                             : tooMuchMemory(inMemory));
}

Infeasibility kerf::plan::explainInfeasible(
    const PlanOptions &options, MemoryNeeds needs, const std::string &notes,
    bool isCutShort, bool hasMore, const Effort &effort, TryPlan tryPlan) {
  return Diagnosis(options, needs, notes, isCutShort, hasMore, effort, tryPlan)
      .explain();
}
