//===- Infeasible.h - why there is no plan ----------------------*- C++ -*-===//
//
// A search that ends without a plan does not say which constraint is at fault:
// memory, the share of operations, hints and the mesh act together. A reason is
// given only after a search without the other constraints has confirmed it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_REPORT_INFEASIBLE_H
#define KERF_LIB_PLAN_REPORT_INFEASIBLE_H

#include "kerf/Plan/Plan.h"

namespace kerf::plan {

/// The smallest plan that a search came upon, whether it keeps the limit or
/// not.
struct SmallestPlan {
  int64_t bytes = std::numeric_limits<int64_t>::max(); ///< as predicted
  CandidateSummary candidate;

  bool isKnown() const { return bytes < std::numeric_limits<int64_t>::max(); }
  void consider(const SmallestPlan &other) {
    if (other.bytes < bytes)
      *this = other;
  }
};

/// The result of a search that writes no plan.
enum class Trial { Found, None, Unknown };
struct Tried {
  Trial verdict = Trial::Unknown;
  SmallestPlan smallest;
};

/// Searches under `options` and writes nothing. None: proven; Unknown: the
/// search was cut short.
using TryPlan = llvm::function_ref<Tried(const PlanOptions &options)>;

struct Infeasibility {
  PlanError error = PlanError::Infeasible;
  std::string message; ///< one line, then notes
};

/// Bytes of the fullest device, as far as a search found out.
struct MemoryNeeds {
  int64_t proven = 0; ///< that every plan needs; 0: unknown
  SmallestPlan smallest;
  /// Whether `proven` is of every plan that there is, and not of those alone
  /// that are searched for.
  bool isOfAll = false;
};

/// Why there is no plan under `options`. `needs`: of the search that found
/// none; `notes`: how each candidate ended, one per line; `isCutShort`: the
/// time that it had was over; `hasMore`: see holdsLessNote(); `effort`: of the
/// trials, which end after some seconds of it.
Infeasibility explainInfeasible(const PlanOptions &options, MemoryNeeds needs,
                                const std::string &notes, bool isCutShort,
                                bool hasMore, const Effort &effort,
                                TryPlan tryPlan);

/// The bytes that a device may hold; none: no limit.
std::optional<int64_t> memoryLimitOf(const PlanOptions &options);

/// What lets each device hold less: a note behind a message. `hasMore`: whether
/// the batch divides by more micro-batches than were looked at; `isProven`:
/// whether a longer search cannot help; `isOfAll`: nor any other cut.
std::string holdsLessNote(const PlanOptions &options, bool hasMore,
                          bool isProven, bool isOfAll);

/// How candidates ended, once per reason, the smallest few of each: notes
/// behind a message.
std::string candidateNotes(llvm::ArrayRef<CandidateSummary> candidates,
                           int64_t limit = 0);

/// "pp=2,dp=4 with 8 micro-batches", without what it takes.
std::string nameOf(const CandidateSummary &candidate);

/// "41104400 bytes (39.2 MiB)".
std::string bytesText(int64_t bytes);

/// Why a candidate was not searched to its end.
std::string atLeast(Objective objective, double bound);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_INFEASIBLE_H
