//===- Elimination.h - exact variable elimination ---------------*- C++ -*-===//
//
// Nodes are eliminated one after another: all tables that mention the node are
// added and minimised over its choices, which gives a message over its
// neighbours. The order is greedy by the smallest joint table. Among equals the
// node that was touched least so far goes first: repeated structure is then
// eliminated in the same way everywhere, and a chain of equal pieces is halved
// again and again instead of growing from one end. A step whose input tables
// (by id) and their relative positions have occurred before reuses the earlier
// message.
//
// With a graph of induced width w and d choices: O(nodes * d^(w+1)) time.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_ELIMINATION_H
#define KERF_LIB_PLAN_SOLVER_ELIMINATION_H

#include "Model.h"

#include <functional>

namespace kerf::plan {

/// One elimination: `node` given `scope`, its neighbours at that moment.
struct EliminationStep {
  struct Input {
    /// A factor of the model, or the message of an earlier step.
    bool isMessage;
    uint32_t index;
    /// Place of each of the input's axes in (scope..., node).
    llvm::SmallVector<uint32_t, 4> positions;
  };
  uint32_t node;
  llvm::SmallVector<uint32_t, 4> scope; ///< ascending
  llvm::SmallVector<Input, 4> inputs;
  /// A split node has several steps in a row; the first has their number here,
  /// the others 0. Each has some of the inputs, and a share of the node's own
  /// costs chosen so that the copies agree as far as possible.
  uint32_t groupSize = 1;
};

/// An elimination order and its cost. Depends on the structure of the model
/// only.
struct EliminationOrder {
  std::vector<EliminationStep> steps;
  bool fits = true; ///< no joint table passes the limit; else steps is partial
  double maxTableEntries = 0, totalEntries = 0;
  size_t width = 0;

  /// Exact: stops (fits = false) where the next table would pass the limit.
  template <typename V>
  static EliminationOrder find(const Model<V> &model, double maxTableEntries);
  /// Never stops: a node whose joint table would pass the limit is split into
  /// copies that may take different choices ("mini-buckets"), so the result of
  /// a run is a lower bound. `splits` counts the copies.
  template <typename V>
  static EliminationOrder findSplitting(const Model<V> &model,
                                        double maxTableEntries);
  size_t splits = 0;
};

/// What the unary tables of a run look like: by default the model's own.
template <typename V> class Elimination {
public:
  Elimination(Model<V> &model, const EliminationOrder &order)
      : model(model), order(order) {}

  /// The cheapest assignment and its cost (infinity: none is allowed), for the
  /// given unary tables; with split nodes a lower bound of it. Messages stay
  /// valid until the store is truncated.
  V run(llvm::ArrayRef<TableId> unary);
  /// With split nodes: a node's choice minimises the sum over all of its steps,
  /// so the assignment is consistent, but it may be neither the cheapest nor
  /// allowed.
  std::vector<uint32_t> backtrack() const;
  /// The same, but `pick` chooses from each node's row of cheapest costs, given
  /// the choices made before.
  std::vector<uint32_t>
  backtrack(llvm::function_ref<uint32_t(const std::vector<V> &)> pick) const;

  /// After run(): for each node and choice the cheapest cost of a solution
  /// that takes it. `completions[step]` is, over the scope of the step's
  /// message, the cheapest cost of all that is not in the message.
  struct Marginals {
    std::vector<std::vector<V>> ofNode;
    std::vector<std::vector<V>> completions;
  };
  /// Not for orders with split nodes.
  Marginals marginals() const;

  /// The message of a step, without its offset.
  const Table<V> &messageOf(size_t step) const {
    return model.store[messages[step]];
  }
  V offsetOf(size_t step) const { return offsets[step]; }
  const Table<V> &tableOf(const EliminationStep::Input &input) const {
    return model.store[input.isMessage ? messages[input.index]
                                       : model.factors[input.index].table];
  }
  size_t computed = 0, reused = 0;

private:
  struct Joint;
  void runStep(size_t index, const Table<V> &own);
  void runGroup(size_t first);

  Model<V> &model;
  const EliminationOrder &order;
  std::vector<TableId> unary;
  std::vector<TableId> messages;
  std::vector<V> offsets;
  V total = 0;
};

extern template class Elimination<int64_t>;
extern template class Elimination<Sum>;

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_ELIMINATION_H
