//===- Model.h - a Problem made ready for solving ---------------*- C++ -*-===//
//
// The lexicographic levels become one number, v = c0*w0 + c1*w1 + c2, with
// weights so large that a lower level never outweighs a higher one; in int64 if
// the largest sum fits, else in 128 bits. Limited resources become rows: one
// per instant at which the load can be maximal; the limit of a row is what
// remains after every node's least usage. Choices that no optimal solution
// needs are removed (Prune.cpp); choiceOf maps back to the Problem.
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
  /// Right shift of each level if even 128 bits are too few (differences below
  /// the shift are ignored; level 0 is never shifted).
  unsigned shift[kNumLevels] = {0, 0, 0};
  /// Bounds over all solutions: on the magnitude of the combined cost, and on
  /// the part of it that comes from lower levels.
  Sum magnitude = 0, maxBelow = 0;

  static LevelWeights of(const Problem &problem);
  bool fits64() const { return magnitude < (Sum(1) << 54); }
  Sum combine(const CostTable &table, size_t entry) const;
  /// The level-0 value that a combined lower bound proves.
  Sum primaryBound(Sum combined) const;
};

/// An instant at which the load of a resource can be maximal.
struct Row {
  uint32_t resource;
  uint32_t id; ///< its place among all rows
  int64_t time;
  Sum limit; ///< for usages above the least of each node; may be negative
  Sum base;  ///< sum of the nodes' least usages
};

/// Usages of a node's choices above its least usage, on rows [begin, end).
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
  /// All rows with their known base load, also those whose limit cannot be
  /// exceeded any more; for messages.
  std::vector<Row> everyRow;
  V constant = 0; ///< cost that is the same for all remaining choices
  bool infeasible = false;
  Effort *effort;

  void count(WorkPiece piece, double times) const {
    countWork(effort, piece, times);
  }
  /// So many entries of tables.
  void countEntries(size_t entries) const {
    // Of 16 bytes they take twice as long.
    count(WorkPiece::Entry, static_cast<double>(entries * sizeof(V) / 8));
  }

  /// `effort`: counts what is done with the model; may be null.
  explicit Model(const Problem &problem, const LevelWeights &weights,
                 Effort *effort = nullptr);

  size_t numNodes() const { return unary.size(); }
  uint32_t numChoices(uint32_t node) const { return choiceOf[node].size(); }
  const std::vector<V> &costs(uint32_t node) const {
    return store[unary[node]].values;
  }
  /// adjacency()[node]: indices into factors.
  std::vector<std::vector<uint32_t>> adjacency() const;

  /// Removes all other choices from the node's tables, factors and usages. Call
  /// tidy() after a batch.
  void keepChoices(llvm::ArrayRef<std::vector<char>> keep);
  /// Merges factors of equal scope, folds nodes with one choice into their
  /// neighbours, moves least usages into the base, drops rows that cannot be
  /// exceeded.
  void tidy();

  /// Forgets all limits.
  void dropRows();

  Solution toOriginal(const std::vector<uint32_t> &choices) const;
  V costOf(const std::vector<uint32_t> &choices) const;
  /// Load above the base, per row.
  std::vector<Sum> loadOf(const std::vector<uint32_t> &choices) const;

private:
  void buildRows(const Problem &problem);
  void foldSingles();
  void mergeFactors();
  void tightenRows();
};

/// Removes each choice that another choice of the node dominates: one that is
/// never more expensive, whatever the neighbours take, and uses no more of any
/// row. Also removes choices that are forbidden with every choice of some
/// neighbour. Repeats until nothing changes, at most `rounds` times. At least
/// one lexicographically optimal solution remains.
template <typename V> void pruneDominated(Model<V> &model, int rounds);

extern template struct Model<int64_t>;
extern template struct Model<Sum>;

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_MODEL_H
