//===- StepPlanner.h - a step, also with blocks recomputed ------*- C++ -*-===//
//
// A training step can be planned as it is, and with blocks of its forward pass
// computed again (Recompute.h), which is another function: each has a Planner.
// Work that is done twice costs time, so functions with recomputation are
// searched where the memory limit rules out what is cheapest without, and then
// the best plan of all is taken. The bound is the least of all that were
// searched.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STEPPLANNER_H
#define KERF_LIB_PLAN_STEPPLANNER_H

#include "Planner.h"

#include <deque>

namespace kerf::plan {

class StepPlanner {
public:
  StepPlanner(mlir::ModuleOp module, mlir::func::FuncOp function,
              const PlanOptions &options);

  /// The best plan, written onto `target`, which is a copy of the module that
  /// is planned, or that one.
  mlir::FailureOr<PlanResult> run(mlir::ModuleOp target, PlanError &error,
                                  std::string &message);
  /// See Planning.
  void reject(int64_t laidOutBytes);
  mlir::FailureOr<PlanResult> next(mlir::ModuleOp target, std::string &message);
  /// As run(), and nothing is written.
  Tried tryOut();

private:
  using Clock = Planner::Clock;
  struct Variant {
    int64_t every = 0; ///< of how many blocks one is computed again; 0: of none
    mlir::OwningOpRef<mlir::ModuleOp> module; ///< null: the one that was given
    PlanOptions options;                      ///< the planner refers to them
    std::unique_ptr<Planner> planner;
  };

  Planner &asItIs() { return *variants.front().planner; }
  bool mayRecompute();
  /// Plans the function with each so many blocks computed again; null if that
  /// changes nothing.
  Variant *addVariant(int64_t every);
  void searchVariants();
  /// Tells each planner what the others have found.
  void compare();
  std::pair<Variant *, Attempt *> best();
  mlir::FailureOr<PlanResult> write(Variant &variant, Attempt &best,
                                    mlir::ModuleOp target);
  PlanResult describe(Variant &variant, Attempt &best);
  LeastMemory leastMemory() const;
  std::vector<CandidateSummary> summaries() const;

  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  PlanOptions options;
  Clock::time_point start = Clock::now();
  std::deque<Variant> variants; ///< the function as it is first
  bool hasVariants = false;
  std::vector<int64_t> unsearched; ///< the deadline came before these
  Variant *written = nullptr;
  int64_t leastLaidOut = std::numeric_limits<int64_t>::max();
  Clock::time_point firstRejection;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STEPPLANNER_H
