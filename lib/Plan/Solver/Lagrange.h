//===- Lagrange.h - prices on limits ----------------------------*- C++ -*-===//
//
// A price lambda >= 0 per row and unit turns limits into costs:
//
//     L(lambda) = min_x cost(x) + sum_r lambda_r * (load_r(x) - limit_r)
//
// is a lower bound for every lambda, and one elimination computes it. Prices
// are fixed-point integers; penalties round down and the subtracted constant
// rounds up, so the bound is proven, not approximate. The best prices are
// sought by exact line searches along the most violated row, then by
// subgradients.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_LAGRANGE_H
#define KERF_LIB_PLAN_SOLVER_LAGRANGE_H

#include "Elimination.h"
#include "Search.h"

namespace kerf::plan {

/// Prices in units of 2^-priceShift<V>() cost per unit of usage.
template <typename V> constexpr unsigned priceShift() {
  return sizeof(V) == 8 ? 20 : 4;
}

/// What prices add to each choice of each node (nothing: an empty list), and
/// what the limits together are worth.
template <typename V> struct Penalties {
  std::vector<std::vector<V>> ofNode;
  V constant = 0;
};
template <typename V>
Penalties<V> penaltiesAt(const Model<V> &model, const std::vector<Sum> &prices);

/// Scales prices down where their penalties would come near infinity.
template <typename V>
void limitPrices(const Model<V> &model, std::vector<Sum> &prices);

template <typename V> class Dual {
public:
  using Prices = std::vector<Sum>;

  Dual(Model<V> &model, const EliminationOrder &order)
      : model(model), elimination(model, order), mark(model.store.size()) {}
  ~Dual() { model.store.truncate(mark); }

  struct Point {
    V bound = 0; ///< L(prices)
    V cost = 0;  ///< of `choices`, without penalties
    std::vector<uint32_t> choices;
    std::vector<Sum> load;
    bool legal = false;
    bool blocked = false; ///< no assignment is allowed at all
  };
  void limitPrices(Prices &prices) const {
    kerf::plan::limitPrices(model, prices);
  }
  /// One elimination, for prices within the limit.
  Point evaluate(const Prices &prices);
  /// For a model without costs: the assignment with the least load of the row;
  /// `bound` is that load.
  Point minLoad(size_t row);

  /// What evaluate(prices) would add to each choice.
  std::vector<TableId> penalised(const Prices &prices, V &constant);
  /// Marginals at the last evaluated point, as bounds on cost.
  typename Elimination<V>::Marginals marginals() const {
    return elimination.marginals();
  }

  struct Ascent {
    Prices prices;
    Point best; ///< with the largest bound
  };
  /// At most `rounds` evaluations. `seen` is called with each point.
  Ascent ascend(int rounds, const Clock &clock,
                llvm::function_ref<void(const Point &)> seen,
                std::optional<V> upperBound);

  Model<V> &model;
  Elimination<V> elimination;
  size_t rounds = 0;
  V lastConstant = 0;

private:
  /// The best price for one row, others fixed. Exact up to fixed point.
  Point lineSearch(Prices &prices, size_t row, const Point &start, int &budget,
                   const Clock &clock,
                   llvm::function_ref<void(const Point &)> seen);
  size_t mark;
};

extern template Penalties<int64_t> penaltiesAt(const Model<int64_t> &,
                                               const std::vector<Sum> &);
extern template Penalties<Sum> penaltiesAt(const Model<Sum> &,
                                           const std::vector<Sum> &);
extern template void limitPrices(const Model<int64_t> &, std::vector<Sum> &);
extern template void limitPrices(const Model<Sum> &, std::vector<Sum> &);
extern template class Dual<int64_t>;
extern template class Dual<Sum>;

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_LAGRANGE_H
