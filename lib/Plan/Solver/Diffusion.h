//===- Diffusion.h - bounds by message passing ------------------*- C++ -*-===//
//
// Problem: where tables are too large for elimination, a lower bound and a
// proof that choices are too expensive are still wanted.
//
// Idea: costs may be moved between a node and the factors that mention it,
// without any solution costing more or less. If all that is left at nodes and
// in factors is non-negative, what was moved into a constant is a lower bound.
// A pass goes over the nodes in order: a node takes from each of its factors
// what each of its choices costs there at least, gives the least of the sum to
// the constant, and hands the rest in equal shares to the factors that lead
// onwards (sequential tree-reweighted message passing, V. Kolmogorov, 2006).
// The bound never falls from pass to pass, and on trees it is the optimum.
//
// When a node has taken, a choice costs at least the constant and what is left
// there: choices for which that reaches the cost that is looked for are dropped
// at once, which makes the bounds of others rise.
//
// A pass costs O(entries of all factors). Integers throughout: shares are
// rounded down and the rest stays at the node, so bounds are exact.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_DIFFUSION_H
#define KERF_LIB_PLAN_SOLVER_DIFFUSION_H

#include "Lagrange.h"

namespace kerf::plan {

template <typename V> class Diffusion {
public:
  explicit Diffusion(const Model<V> &model);

  /// Prices on limits (Lagrange.h): the bound is of costs with penalties, so
  /// what is said of solutions from here on holds for those that keep the
  /// limits. Messages stay, so few passes are needed for prices that are close
  /// to the last ones.
  void setPrices(const std::vector<Sum> &prices);

  /// One pass in the order of the nodes, or back. Choices with which every
  /// solution costs `goal` or more are dropped.
  void pass(bool forward, V goal);
  /// Every solution costs at least this, or has a choice that was dropped.
  V bound() const { return constant; }
  /// Whether some node has lost all of its choices: no solution is below the
  /// goal.
  bool isEmpty() const { return empty; }
  /// Of each node, which choices are left.
  std::vector<std::vector<char>> kept() const;
  size_t numDropped() const { return dropped; }
  /// The solution that the last pass would take, node by node in its order:
  /// given the nodes before, by what those behind cost at least.
  const std::vector<uint32_t> &decoded() const { return choices; }
  /// Entries that a pass reads.
  double entries() const { return numEntries; }

private:
  static constexpr V kDropped = infinity<V>() * 16; ///< no sum comes near
  static bool isOut(V value) { return value >= kDropped / 2; }

  /// A factor as one of its nodes sees it.
  struct Arc {
    uint32_t factor, axis;
    bool before, behind; ///< it mentions nodes before and behind this one
  };
  std::vector<V> &messageOf(uint32_t factor, uint32_t axis) {
    return messages[firstMessage[factor] + axis];
  }
  /// What each choice of the node costs in the factor at least, without what
  /// the node itself has taken so far.
  void pull(uint32_t factor, uint32_t axis, std::vector<V> &out);
  void take(uint32_t factor, uint32_t axis);
  uint32_t decode(uint32_t node, bool forward);
  void drop(uint32_t node, uint32_t choice);
  /// Gives the least of what is left at a node to the constant.
  void settle(uint32_t node);

  const Model<V> &model;
  std::vector<std::vector<Arc>> arcs;
  std::vector<uint32_t> firstMessage;
  /// What a node has taken from a factor.
  std::vector<std::vector<V>> messages;
  std::vector<std::vector<V>> own; ///< of the nodes, less what went away
  std::vector<std::vector<char>> out;
  std::vector<uint32_t> choices;
  V constant;
  bool empty = false;
  size_t dropped = 0;
  double numEntries = 0;
  Penalties<V> penalties; ///< of the prices that were set last
  std::vector<V> sum, share;
};

extern template class Diffusion<int64_t>;
extern template class Diffusion<Sum>;

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_DIFFUSION_H
