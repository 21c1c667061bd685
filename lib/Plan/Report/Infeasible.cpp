//===- Infeasible.cpp - why there is no plan ------------------------------===//
//
// Constraints are dropped one after another: first all limits, then hints, then
// each limit alone. A limit is suggested only after a search has found a plan
// under it. Each search has a limit of a few seconds; nothing is reported
// that it has not proven.
//
//===----------------------------------------------------------------------===//
#include "Infeasible.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace kerf;
using namespace kerf::plan;
using llvm::SmallVector;

std::optional<int64_t> kerf::plan::memoryLimitOf(const PlanOptions &options) {
  if (options.memoryLimitBytes)
    return options.memoryLimitBytes;
  int64_t bytes = options.machine.memoryBytesPerDevice;
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

std::string kerf::plan::atLeast(Objective objective, double bound) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (objective == Objective::Time)
    stream << llvm::format("costs at least %.3g ms", bound * 1e3);
  else
    stream << llvm::format("costs at least %.0f bytes", bound);
  stream << ", more than another";
  return text;
}

std::string
kerf::plan::candidateNotes(llvm::ArrayRef<CandidateSummary> candidates) {
  std::vector<std::pair<std::string, std::string>> meshesOf; ///< of reasons
  for (const CandidateSummary &candidate : candidates) {
    const std::string &reason = candidate.reason;
    if (reason.empty())
      continue;
    std::string mesh;
    for (const auto &[name, size] : candidate.mesh)
      mesh += (mesh.empty() ? "" : ",") + name + "=" + std::to_string(size);
    auto known = llvm::find_if(
        meshesOf, [&](const auto &entry) { return entry.first == reason; });
    if (known == meshesOf.end())
      known = meshesOf.insert(known, {reason, ""});
    if (mesh.empty())
      mesh = "one device";
    if (!llvm::StringRef(known->second).ends_with(mesh)) // other micro-batches
      known->second += (known->second.empty() ? "" : "; ") + mesh;
  }
  std::string notes;
  for (const auto &[reason, meshes] : meshesOf)
    notes += "\nnote: " + meshes + ": " + reason;
  return notes;
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

/// A minimal set of hints that conflict. One search per hint.
static std::vector<ShardHint> conflictingHints(PlanOptions options,
                                               TryPlan tryPlan) {
  for (size_t i = options.hints.size(); i-- > 0;) {
    PlanOptions fewer = options;
    fewer.hints.erase(fewer.hints.begin() + static_cast<std::ptrdiff_t>(i));
    if (tryPlan(fewer) == Trial::None)
      options = std::move(fewer);
  }
  return options.hints;
}

/// A memory limit under which a plan was found; 0: none was. Little above what
/// the smallest plan takes, if one is known, else above what every plan needs.
static int64_t limitThatFits(PlanOptions options, LeastMemory least,
                             TryPlan tryPlan) {
  bool isKnown = least.predicted < std::numeric_limits<int64_t>::max();
  int64_t min = isKnown ? least.predicted : least.proven;
  if (min == 0)
    min = *memoryLimitOf(options);
  SmallVector<double> factors = {1.02, 1.15, 1.3, 1.7, 2.5};
  for (double factor = 4; factor < 5000; factor *= 2)
    factors.push_back(factor);
  for (double factor : factors) {
    double bytes = std::ceil(static_cast<double>(min) * factor);
    if (bytes >= 9e18)
      return 0;
    options.memoryLimitBytes = static_cast<int64_t>(bytes);
    if (tryPlan(options) == Trial::Found)
      return *options.memoryLimitBytes;
  }
  return 0;
}

Infeasibility kerf::plan::explainInfeasible(const PlanOptions &given,
                                            LeastMemory least,
                                            const std::string &notes,
                                            TryPlan tryPlan) {
  Infeasibility result;
  PlanOptions options = given;
  constexpr double trialSeconds = 5;
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
    result.message = "no plan was found in the time that there was" + notes;
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
        result.message = "option micro-batches: the model cannot be cut into " +
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
  std::optional<int64_t> limit = memoryLimitOf(options);
  bool fitsWork = tryPlan(withoutMemoryLimit(options)) == Trial::Found;
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
  bool isProven = inMemory == Trial::None || least.proven > *limit;
  auto bytes = [](int64_t count) {
    return std::to_string(count) + " bytes per device";
  };
  if (isProven)
    result.message = "no plan fits in memory: " +
                     (least.proven > *limit
                          ? "every plan needs at least " + bytes(least.proven)
                          : std::string("that is proven for each mesh"));
  else
    result.message = "no plan was found that fits in memory: " +
                     (least.predicted < std::numeric_limits<int64_t>::max()
                          ? "the smallest that was found needs about " +
                                bytes(least.predicted)
                          : std::string("none is proven not to"));
  result.message += ", the limit is " + bytes(*limit) + notes +
                    "\nnote: more devices, or option mesh with more tp or pp, "
                    "need less of each";
  int64_t enough = limitThatFits(options, least, tryPlan);
  if (enough)
    result.message += "\nnote: a limit of " + std::to_string(enough) +
                      " bytes would make it fit";
  return result;
}
