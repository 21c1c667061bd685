//===- Problem.h - a planner's decisions as plain data ----------*- C++ -*-===//
//
// A Problem is a set of decisions ("nodes"). Each node takes one of its
// choices; a choice costs something by itself, edges (over two or more nodes)
// cost something for each combination of choices, and choices use resources
// over intervals of time, of which there is a limit at every instant:
//
//     minimise   sum_n cost_n(x_n) + sum_e table_e(x_e)
//     subject to sum_{u lives at t} amount_u(x_node(u)) <= limit   for all t
//
// In a plan a node is an op or a value, its choices are shardings, an edge
// holds the price of resharding, the resource is memory. A budget that holds
// for the whole program (floating-point operations of a device) is a resource
// whose usages all live on [0, 1).
//
// Nothing here knows IR. Building a Problem from IR, solving it (Solvers.h) and
// writing the answer back are three separate things.
//
// Costs are lexicographic: level 0 first, then level 1, then level 2. Entries
// are non-negative or negative int64 in any unit (bytes,
// picoseconds); sums are exact in 128 bits. An entry >= kForbidden in level 0
// forbids the choice or combination.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_PROBLEM_H
#define KERF_PLAN_PROBLEM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::plan {

/// Sums of costs and of usages. Never wraps for tables that check() accepts.
using Sum = __int128;
std::string toString(Sum value);

/// Level-0 entries at or above this are "not allowed", whatever their value.
constexpr int64_t kForbidden = 1'000'000'000'000'000'000;
/// Allowed entries and limits lie within +-kMaxEntry.
constexpr int64_t kMaxEntry = kForbidden - 1;
constexpr unsigned kNumLevels = 3;

/// One value per objective level.
using Levels = std::array<int64_t, kNumLevels>;
using LevelSums = std::array<Sum, kNumLevels>;

/// Costs of all choices of a node, or of all combinations of an edge (row-major
/// in the edge's node list, last node fastest). levels[0] is always there;
/// levels[1] and levels[2] may be empty, which means all zero.
struct CostTable {
  std::array<std::vector<int64_t>, kNumLevels> levels;

  CostTable() = default;
  explicit CostTable(std::vector<int64_t> primary) {
    levels[0] = std::move(primary);
  }
  /// A table of `size` zeros in level 0.
  static CostTable zeros(size_t size) {
    return CostTable(std::vector<int64_t>(size, 0));
  }
  size_t size() const { return levels[0].size(); }
  bool isForbidden(size_t i) const { return levels[0][i] >= kForbidden; }
  int64_t at(unsigned level, size_t i) const {
    return levels[level].empty() ? 0 : levels[level][i];
  }
  /// Writes one entry, growing the lower levels where it is not zero there.
  void set(size_t i, const Levels &value);
  /// Adds to one entry; a forbidden entry stays forbidden.
  void add(size_t i, const Levels &value);
  void forbid(size_t i) { levels[0][i] = kForbidden; }
  bool operator==(const CostTable &other) const {
    return levels == other.levels;
  }
};

/// Half-open; empty when begin >= end (then nothing is used).
struct Interval {
  int64_t begin = 0, end = 1;
  bool empty() const { return begin >= end; }
};

struct Problem {
  struct Node {
    std::string name; ///< for messages; may be empty
    CostTable costs;  ///< one entry per choice, at least one
  };
  struct Edge {
    std::vector<uint32_t> nodes; ///< two or more distinct nodes
    uint32_t table;              ///< index into `tables`; may be shared
  };
  /// `node` uses amounts[choice] (>= 0) of the resource during `live`. A node
  /// may have any number of usages, on any resources.
  struct Usage {
    uint32_t node;
    Interval live;
    std::vector<int64_t> amounts;
  };
  struct Resource {
    std::string name;             ///< "memory", "flops"
    std::optional<int64_t> limit; ///< none: only reported
    std::vector<Usage> usages;
  };

  std::string name;
  std::vector<Node> nodes;
  std::vector<CostTable> tables;
  std::vector<Edge> edges;
  std::vector<Resource> resources;

  uint32_t addNode(CostTable costs, std::string name = {});
  /// Tables of repeated structure are best added once and shared by edges.
  uint32_t addTable(CostTable table);
  uint32_t addEdge(std::vector<uint32_t> nodes, uint32_t table);
  uint32_t addEdge(std::vector<uint32_t> nodes, CostTable table);
  uint32_t addResource(std::string name, std::optional<int64_t> limit);
  void addUsage(uint32_t resource, uint32_t node, Interval live,
                std::vector<int64_t> amounts);

  size_t numChoices(uint32_t node) const { return nodes[node].costs.size(); }
  /// Index of a combination in an edge's table.
  size_t entryOf(const Edge &edge, llvm::ArrayRef<uint32_t> choices) const;

  /// Well-formedness: every size, index and range above. The error names the
  /// node, edge or usage, expected against actual. Solvers assume it.
  llvm::Error check() const;
};

/// One choice per node.
using Solution = std::vector<uint32_t>;

/// What a solution costs and uses, computed from the tables alone.
struct Evaluation {
  LevelSums cost = {0, 0, 0}; ///< over allowed entries
  int64_t forbidden = 0;      ///< node and edge entries that are not allowed
  struct Peak {
    Sum amount = 0;
    int64_t time = 0; ///< the first instant at which it is reached
  };
  std::vector<Peak> peaks;             ///< per resource
  std::vector<uint32_t> overcommitted; ///< resources over their limit
  bool legal() const { return forbidden == 0 && overcommitted.empty(); }
};

/// Exact evaluation. The solution must have one valid choice per node.
/// O(tables touched + usages log usages).
Evaluation evaluate(const Problem &problem, const Solution &solution);

/// evaluate() behind every check: an error for a wrong length, an invalid
/// choice, a forbidden entry (named) or a resource over its limit (with peak,
/// limit and time). Every answer that a solver gives passes this.
llvm::Expected<Evaluation> verify(const Problem &problem,
                                  const Solution &solution);

/// -1, 0, 1 in lexicographic order.
int compare(const LevelSums &a, const LevelSums &b);

} // namespace kerf::plan

#endif // KERF_PLAN_PROBLEM_H
