//===- KeptValues.cpp - values that a function leaves for others ----------===//
//
// A minimum vertex cut: between values that only their own function can compute
// and values that a later function uses lie ops that both could compute
// (reshapes, casts, broadcasts). Every path must be cut by a kept value. Each
// value is two nodes joined by an edge whose capacity is its bytes; the maximum
// flow gives the minimum cut (Dinic: breadth-first levels, then blocking flows
// along them). Of several minimum cuts the one nearest to the uses repeats the
// fewest ops.
//
// Example: f32 %a (not repeatable) -> cast %b (bf16) -> reshape %c. If only %c
// is used, it is kept, half of %a's bytes; if %a is used too, %a alone is kept.
//
//===----------------------------------------------------------------------===//
#include "kerf/Fusion/KeptValues.h"

#include "kerf/Interfaces/AnyOp.h"

#include "llvm/ADT/MapVector.h"

#include <limits>
#include <vector>

using namespace mlir;
using namespace kerf;

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;

class Flow {
public:
  int addNode() {
    edgesOf.emplace_back();
    return static_cast<int>(edgesOf.size()) - 1;
  }
  void addEdge(int from, int to, int64_t room) {
    edgesOf[from].push_back(static_cast<int>(edges.size()));
    edges.push_back({to, room});
    edgesOf[to].push_back(static_cast<int>(edges.size()));
    edges.push_back({from, 0});
  }

  void saturate(int source, int sink) {
    while (findLevels(source, sink)) {
      next.assign(edgesOf.size(), 0);
      while (push(source, sink))
        ;
    }
  }

  /// Nodes from which the sink can still be reached.
  std::vector<bool> reaching(int sink) const {
    std::vector<bool> seen(edgesOf.size());
    std::vector<int> work = {sink};
    seen[sink] = true;
    while (!work.empty()) {
      int node = work.back();
      work.pop_back();
      for (int number : edgesOf[node]) {
        int from = edges[number].to; // the edge's twin leads here
        if (!seen[from] && edges[number ^ 1].room > 0) {
          seen[from] = true;
          work.push_back(from);
        }
      }
    }
    return seen;
  }

private:
  struct Edge {
    int to;
    int64_t room;
  };

  bool findLevels(int source, int sink) {
    level.assign(edgesOf.size(), -1);
    level[source] = 0;
    std::vector<int> queue = {source};
    for (size_t head = 0; head < queue.size(); ++head)
      for (int number : edgesOf[queue[head]])
        if (edges[number].room > 0 && level[edges[number].to] < 0) {
          level[edges[number].to] = level[queue[head]] + 1;
          queue.push_back(edges[number].to);
        }
    return level[sink] >= 0;
  }

  /// One path along the levels, without recursion: paths can be long.
  bool push(int source, int sink) {
    std::vector<int> path; // edges
    int node = source;
    while (node != sink) {
      bool advanced = false;
      for (size_t &at = next[node]; at < edgesOf[node].size(); ++at) {
        int number = edgesOf[node][at];
        if (edges[number].room > 0 &&
            level[edges[number].to] == level[node] + 1) {
          path.push_back(number);
          node = edges[number].to;
          advanced = true;
          break;
        }
      }
      if (advanced)
        continue;
      if (path.empty())
        return false;
      level[node] = -1; // a dead end
      node = edges[path.back() ^ 1].to;
      path.pop_back();
    }
    int64_t amount = kNoLimit;
    for (int number : path)
      amount = std::min(amount, edges[number].room);
    for (int number : path) {
      edges[number].room -= amount;
      edges[number ^ 1].room += amount;
    }
    return true;
  }

  std::vector<std::vector<int>> edgesOf;
  std::vector<Edge> edges;
  std::vector<int> level;
  std::vector<size_t> next;
};

} // namespace

SmallVector<Value> kerf::chooseKeptValues(const KeptProblem &problem) {
  Flow flow;
  int source = flow.addNode(), sink = flow.addNode();
  llvm::MapVector<Value, int> nodes; // the value's first node; then the second
  SmallVector<Value> work;
  auto visit = [&](Value value) {
    auto [it, added] = nodes.insert({value, 0});
    if (!added)
      return it->second;
    int in = it->second = flow.addNode(), out = flow.addNode();
    // A value of 0 bytes (kept anyway) cuts its paths; `reaching` finds the one
    // nearest to the uses.
    flow.addEdge(in, out, problem.bytes(value));
    if (!problem.canRepeat(value))
      flow.addEdge(source, in, kNoLimit);
    else
      work.push_back(value);
    return in;
  };
  for (Value value : problem.needed)
    if (!problem.isFree(value))
      flow.addEdge(visit(value) + 1, sink, kNoLimit);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    int in = nodes[value];
    for (Value operand : value.getDefiningOp()->getOperands())
      if (!problem.isFree(operand))
        flow.addEdge(visit(operand) + 1, in, kNoLimit);
  }
  flow.saturate(source, sink);
  std::vector<bool> reaching = flow.reaching(sink);
  SmallVector<Value> kept;
  for (auto [value, in] : nodes)
    if (reaching[in + 1] && !reaching[in])
      kept.push_back(value);
  return kept;
}

bool kerf::movesOrCasts(Operation *op) {
  auto cost = dyn_cast<OpCostInterface>(op);
  if (!cost || !isa<ShardingRuleInterface>(op) || op->getNumResults() != 1)
    return false;
  CostClass costClass = cost.getCostClass();
  if (costClass != CostClass::View && costClass != CostClass::Elementwise)
    return false;
  SmallVector<RankedTensorType> operands;
  for (Type operand : op->getOperandTypes())
    operands.push_back(plannedType(operand));
  RankedTensorType type = plannedType(op->getResult(0));
  if (cost.getFlops(operands, {type}) == 0)
    return true;
  return operands.size() == 1 && operands[0].getShape() == type.getShape() &&
         operands[0].getElementType() != type.getElementType();
}
