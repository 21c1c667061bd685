//===- Model.h - a Problem made ready for solving ---------------*- C++ -*-===//
//
// The lexicographic levels become one number, v = c0*w0 + c1*w1 + c2, with
// weights so large that a lower level never outweighs a higher one; int64 where
// the largest sum fits, else 128 bits. Limited resources become rows: one per
// instant at which the load can be maximal, each with what is left of the limit
// after every node's least usage has been taken off. Choices that cannot be
// part of an optimal solution are gone (Prune.cpp); choiceOf maps back.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_MODEL_H
#define KERF_LIB_PLAN_SOLVER_MODEL_H

#include "Tables.h"
#include "kerf/Plan/Problem.h"
#include "kerf/Plan/Solvers.h"

namespace kerf::plan {

/// How levels become one number.
struct LevelWeights {
  Sum weight[kNumLevels] = {1, 0, 0};
  /// Right shift of each level where even 128 bits are too few (ties below
  /// that are not broken; level 0 is never shifted).
  unsigned shift[kNumLevels] = {0, 0, 0};
  /// No solution's combined cost is larger in magnitude, and what its lower
  /// levels contribute no more than this.
  Sum magnitude = 0, maxBelow = 0;

  static LevelWeights of(const Problem &problem);
  bool fits64() const { return magnitude < (Sum(1) << 54); }
  Sum combine(const CostTable &table, size_t entry) const;
  /// The level-0 value that a combined lower bound proves.
  Sum primaryBound(Sum combined) const;
};

/// The maximal instants of a resource.
struct Row {
  uint32_t resource;
  uint32_t id; ///< its place among all rows
  int64_t time;
  Sum limit; ///< left for what nodes use above their least; may be negative
  Sum base;  ///< what all nodes use at least
};

/// What a node's choices use above the least, on rows [begin, end).
struct RowUsage {
  uint32_t begin, end;
  std::vector<int64_t> amounts;
};

template <typename V> struct Model {
  struct Factor {
    llvm::SmallVector<uint32_t, 3> scope; ///< ascending
    TableId table;
  };

  TableStore<V> store;
  LevelWeights weights;
  /// Per node: a table of one dimension, its remaining choices.
  std::vector<TableId> unary;
  std::vector<std::vector<uint32_t>> choiceOf;
  std::vector<std::vector<RowUsage>> usages;
  /// At least two nodes of more than one choice each; at most one per scope.
  std::vector<Factor> factors;
  std::vector<Row> rows;
  /// All rows with what is known to be used, also those that cannot be
  /// exceeded any more; for messages.
  std::vector<Row> everyRow;
  V constant = 0; ///< costs that no decision is left about
  bool infeasible = false;

  explicit Model(const Problem &problem, const LevelWeights &weights);

  size_t numNodes() const { return unary.size(); }
  uint32_t numChoices(uint32_t node) const { return choiceOf[node].size(); }
  const std::vector<V> &costs(uint32_t node) const {
    return store[unary[node]].values;
  }
  /// factorsOf[node]: indices into factors.
  std::vector<std::vector<uint32_t>> adjacency() const;

  /// Keeps the choices whose flag is set, in the node's tables, factors and
  /// usages. Call tidy() after a batch.
  void keepChoices(llvm::ArrayRef<std::vector<char>> keep);
  /// Merges factors of one scope, folds nodes of one choice into their
  /// neighbours, takes least usages off, drops rows that cannot be exceeded.
  void tidy();

  /// Forgets all limits.
  void dropRows();

  Solution toOriginal(const std::vector<uint32_t> &choices) const;
  V costOf(const std::vector<uint32_t> &choices) const;
  /// Load above the base of each row.
  std::vector<Sum> loadOf(const std::vector<uint32_t> &choices) const;

private:
  void buildRows(const Problem &problem);
  void foldSingles();
  void mergeFactors();
  void tightenRows();
};

/// Removes choices that another one dominates: never dearer, whatever the
/// neighbours take, and never using more of a row. Also choices that are not
/// allowed with any choice of some neighbour. To a fixed point, at most
/// `rounds` sweeps. Lexicographic optimality is kept (one of equals stays).
template <typename V> void pruneDominated(Model<V> &model, int rounds);

extern template struct Model<int64_t>;
extern template struct Model<Sum>;

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_MODEL_H
