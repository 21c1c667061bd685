//===- Labels.h - exact search under limits ---------------------*- C++ -*-===//
//
// Elimination whose messages hold, for each assignment of their scope, all
// pairs (cost, loads of a few rows) that no other pair dominates: the resource
// constrained shortest path problem, generalised from paths to graphs of small
// width. A label is dropped when its priced cost plus the priced completion
// (from min-marginals) reaches the cost of the best known solution. Only a few
// rows are in the labels; if the answer breaks another row, the search is
// repeated with that row.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_LABELS_H
#define KERF_LIB_PLAN_SOLVER_LABELS_H

#include "Lagrange.h"

namespace kerf::plan {

template <typename V> struct LabelResult {
  /// False: the limit on labels or the deadline was reached; nothing is proven.
  bool complete = false;
  /// The cheapest assignment below the upper bound that keeps the given rows,
  /// if there is one.
  std::optional<std::vector<uint32_t>> choices;
  size_t labels = 0;
};

/// `prices` must be zero outside of `rows`. With `beam` > 0 no list keeps more
/// labels than that: fast, a good solution, but never complete.
template <typename V>
LabelResult<V> searchLabels(Dual<V> &dual, const EliminationOrder &order,
                            llvm::ArrayRef<uint32_t> rows,
                            const std::vector<Sum> &prices, V upperBound,
                            size_t maxLabels, size_t beam, const Clock &clock);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_LABELS_H
