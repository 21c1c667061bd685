//===- StageBounds.h - bounds over all cuts into stages ---------*- C++ -*-===//
//
// Problem: prove for the volume objective that no plan of a candidate with p
// stages sends less than so many bytes from its busiest rank, over all cuts
// that divide the work and all shardings.
//
// Idea: a value that leaves a stage is sent at least once, at best a D-th of it
// by each of the stage's D devices. Every stage must do its share of the
// operations and no more, which limits where cuts can be; some colocation
// groups therefore lie in stage k wherever the cuts are. So for stage k of
// groups [b, e):
//
//   bytes_k >= R_k + sent(b, e)
//
// R_k is the solver's bound on what the ops that are surely in stage k move
// among its devices. A dynamic program over the cuts gives the least possible
// max_k; another gives the least possible sum. The busiest rank sends at least
// the mean, over all ranks, of what the whole Problem moves and all boundaries
// send.
//
// O(p groups^2 + groups crossings), and for R_k p Problems that together are
// smaller than the whole.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STAGES_STAGEBOUNDS_H
#define KERF_LIB_PLAN_STAGES_STAGEBOUNDS_H

#include "../Model/ColocationGroups.h"

namespace kerf::plan {

class StageBounds {
public:
  StageBounds(mlir::func::FuncOp function, const MeshCandidate &candidate,
              const PlanOptions &options, const BatchAnalysis &batch);

  /// No cut divides the work: there is no such plan.
  bool isImpossible() const { return impossible; }
  /// Bytes of the busiest rank, given that the Problem costs `problemCost`.
  double minBytes(double problemCost) const;
  /// The most that a Problem may cost if the plan is to send at most `bytes`.
  double maxWithin(double bytes) const {
    return bytes * static_cast<double>(stages) - all;
  }
  /// Computes R_k, the moves within the stages, each in at most
  /// `deadlineSeconds`.
  void sharpen(const Graph &graph, double deadlineSeconds, Effort *effort);

private:
  /// Sets `max` and `all`; infinity if there is no cut.
  void placeCuts();
  /// Sets `sure`.
  void findSure();

  std::vector<llvm::SmallVector<mlir::Operation *>> groups;
  int64_t stages;
  double stageFlops;         ///< what a stage may do at most
  std::vector<double> flops; ///< of the groups before each
  Crossings crossings;
  std::vector<double> within; ///< R_k
  /// Groups that are in stage k wherever the cuts are: [first, second).
  std::vector<std::pair<size_t, size_t>> sure;
  bool impossible = false;
  double max = 0; ///< of the busiest rank, over all cuts
  double all = 0; ///< one rank of each stage, sent between stages only
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STAGES_STAGEBOUNDS_H
