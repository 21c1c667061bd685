//===- StepPlanner.h - a function, and kinds of it that hold less -*- C++ -*-=//
//
// A training step can be planned unmodified, with its parameters, gradients and
// states in parts (ZeroParts.h), and with blocks of its forward pass computed
// again (Recompute.h): each of these kinds has a Planner. Computing or sending
// twice costs time, so the other kinds are searched only if the memory limit
// rules out the cheapest plan of the unmodified step. Then the best plan of all
// kinds is taken; the bound is the minimum over the kinds that were searched.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STEPPLANNER_H
#define KERF_LIB_PLAN_STEPPLANNER_H

#include "Planner.h"

#include <deque>
#include <map>

namespace kerf::plan {

class StepPlanner {
public:
  /// `effort`: of this search and others that share its time. `rules`: those of
  /// the function's ops that are known.
  StepPlanner(mlir::ModuleOp module, mlir::func::FuncOp function,
              const PlanOptions &options, Effort &effort,
              OpRules rules = OpRules());

  /// The best plan, written onto `target`, which is a copy of the module that
  /// is planned, or that one.
  mlir::FailureOr<PlanResult> run(mlir::ModuleOp target, PlanError &error,
                                  std::string &message);
  /// See Planning.
  void reject(int64_t laidOutBytes);
  mlir::FailureOr<PlanResult> next(mlir::ModuleOp target);
  /// Why next() has failed.
  std::string refusal() const;
  /// A note why several micro-batches were not looked at, in front of a line
  /// break; empty: they were, or the request says how many.
  std::string microBatchesNote() const;
  /// As run(), without a reason where there is no plan.
  mlir::FailureOr<PlanResult> runQuietly(mlir::ModuleOp target);
  /// A plan of another planner took so much.
  void noteLaidOut(int64_t bytes, const std::string &name);
  /// The mesh of the plan that was written last.
  const std::string &nameOfWritten() const { return writtenName; }
  /// See Planning.
  mlir::FailureOr<Explanation> explain(llvm::StringRef name,
                                       std::string &message) {
    return written->planner->explain(name, message);
  }
  /// What every plan costs at least.
  double lowerBound();
  /// Seconds that other planners may take after this one; 0: none are left.
  double secondsLeft() const;
  /// As run(), and nothing is written.
  Tried tryOut();

private:
  /// What a step holds less of.
  struct Kind {
    int64_t every = 0; ///< of how many blocks one is computed again; 0: of none
    Zero zero = Zero::None;
    bool operator==(const Kind &other) const {
      return every == other.every && zero == other.zero;
    }
  };
  struct Variant : Kind {
    mlir::OwningOpRef<mlir::ModuleOp> module; ///< null: the one that was given
    PlanOptions options;                      ///< the planner refers to them
    std::unique_ptr<Planner> planner;
  };

  /// The planner of the function as it was given: nothing is computed again, no
  /// ZeRO.
  Planner &unmodified() { return *variants.front().planner; }
  const Planner &unmodified() const { return *variants.front().planner; }
  /// Whether other kinds are candidates at all.
  bool mayHoldLess();
  bool mayRecompute();
  bool mayUseZero();
  /// A planner of this kind; null if it changes nothing.
  Variant *addVariant(Kind kind);
  /// Makes the function one of this kind; whether it changed.
  static bool makeKind(mlir::func::FuncOp function, Kind kind);
  /// The kinds that are searched besides the unmodified step, in this order.
  std::vector<Kind> otherKinds();
  void searchVariants();
  FitTime fitTime(double seconds) const {
    return {unmodified().elapsed(), seconds, options.deadlineSeconds > 0};
  }
  /// Searches these kinds as long as there is time, and adds those that are
  /// left to `late`, which may be null.
  void search(llvm::ArrayRef<Kind> kinds, FitTime time,
              std::vector<Kind> *late);
  /// Kinds that hold a little more or less and were not searched.
  std::vector<Kind> neighbours(const Kind &kind);
  /// Searches the neighbours of the best plan's kind, as long as that finds a
  /// better plan.
  void searchNeighbours();
  /// Planners postpone candidates whose plans are not known to keep the limit.
  /// Looks for such plans, lowest bound first: a plan of one kind rules out
  /// candidates of the others.
  void fitPostponed();
  /// Tells each planner what the others have found.
  void compare();
  std::pair<Variant *, Attempt *> best();
  /// Whether there were plans with more micro-batches to look at.
  bool searchFurther();
  /// The same once Planner::trustLess() has looked for more.
  std::pair<Variant *, Attempt *> trustLess();
  mlir::FailureOr<PlanResult> write(Variant &variant, Attempt &best,
                                    mlir::ModuleOp target);
  PlanResult describe(Variant &variant, Attempt &best);
  MemoryNeeds memoryNeeds() const;
  std::vector<CandidateSummary> summaries() const;
  /// The same, with what was laid out of each.
  std::vector<CandidateSummary> endings() const;
  /// For how long plans are searched behind the first that was rejected.
  double maxSeconds() const;
  /// Whether plans have been rejected for so long that none is searched any
  /// more: what is known is laid out, smallest first.
  bool isLate() const;
  /// Whether the deadline came before everything was looked at.
  bool isCutShort() const;

  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  PlanOptions options;
  PlanningTime spent;
  std::deque<Variant> variants; ///< the function as it is first
  bool hasVariants = false;
  std::vector<Kind> searched;
  std::vector<Kind> unsearched; ///< the deadline came before these
  Variant *written = nullptr;
  std::string writtenName; ///< of its mesh
  int64_t minLaidOutBytes = std::numeric_limits<int64_t>::max();
  std::string minLaidOutName;
  std::map<std::string, int64_t> laidOut; ///< minimum of each candidate
  double firstRejection = 0;              ///< when, in elapsed() seconds
  int lateTries = 0; ///< plans that were laid out when it was late
  /// The maximum of laid out bytes over predicted bytes; at least 1.
  double maxExcess = 1;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STEPPLANNER_H
