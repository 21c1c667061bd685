//===- EliminationOrder.cpp - which node goes next ------------------------===//
//
// Greedy by the size of the joint table, kept in an ordered set that is updated
// for the neighbours of what was eliminated. O(nodes * (degree^2 + log nodes))
// for graphs of bounded width.
//
//===----------------------------------------------------------------------===//
#include "Elimination.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

using namespace kerf::plan;

namespace {

/// A table that is not yet consumed.
struct Piece {
  llvm::SmallVector<uint32_t, 4> scope;
  bool isMessage;
  uint32_t index;
};

struct Greedy {
  std::vector<std::vector<uint32_t>> neighbours; ///< ascending
  std::vector<std::vector<uint32_t>> piecesOf;
  std::vector<Piece> pieces;
  std::vector<double> sizes;
  std::vector<uint32_t> touched;

  double weightOf(uint32_t node) const {
    double weight = sizes[node];
    for (uint32_t other : neighbours[node])
      weight *= sizes[other];
    return weight;
  }
  EliminationStep eliminate(uint32_t node, uint32_t stepIndex);
};

} // namespace

EliminationStep Greedy::eliminate(uint32_t node, uint32_t stepIndex) {
  EliminationStep step;
  step.node = node;
  step.scope.assign(neighbours[node].begin(), neighbours[node].end());
  auto positionOf = [&](uint32_t other) -> uint32_t {
    if (other == node)
      return step.scope.size();
    return llvm::lower_bound(step.scope, other) - step.scope.begin();
  };
  for (uint32_t id : piecesOf[node]) {
    Piece &piece = pieces[id];
    EliminationStep::Input input{piece.isMessage, piece.index, {}};
    for (uint32_t other : piece.scope)
      input.positions.push_back(positionOf(other));
    step.inputs.push_back(std::move(input));
    for (uint32_t other : piece.scope)
      if (other != node)
        llvm::erase(piecesOf[other], id);
  }
  llvm::sort(step.inputs, [](const auto &a, const auto &b) {
    return std::tie(a.positions, a.isMessage, a.index) <
           std::tie(b.positions, b.isMessage, b.index);
  });
  for (uint32_t other : step.scope) {
    piecesOf[other].push_back(pieces.size());
    touched[other] = std::max(touched[other], touched[node] + 1);
    // The neighbours become a clique.
    std::vector<uint32_t> merged;
    std::set_union(neighbours[other].begin(), neighbours[other].end(),
                   step.scope.begin(), step.scope.end(),
                   std::back_inserter(merged));
    llvm::erase_if(merged, [&](uint32_t n) { return n == other || n == node; });
    neighbours[other] = std::move(merged);
  }
  pieces.push_back({step.scope, /*isMessage=*/true, stepIndex});
  return step;
}

template <typename V>
EliminationOrder EliminationOrder::find(const Model<V> &model,
                                        double maxTableEntries) {
  Greedy greedy;
  size_t numNodes = model.numNodes();
  greedy.neighbours.resize(numNodes);
  greedy.piecesOf.resize(numNodes);
  greedy.touched.assign(numNodes, 0);
  for (uint32_t node = 0; node < numNodes; ++node)
    greedy.sizes.push_back(model.numChoices(node));
  for (auto [index, factor] : llvm::enumerate(model.factors)) {
    for (uint32_t node : factor.scope) {
      greedy.piecesOf[node].push_back(greedy.pieces.size());
      for (uint32_t other : factor.scope)
        if (other != node)
          greedy.neighbours[node].push_back(other);
    }
    greedy.pieces.push_back({{factor.scope.begin(), factor.scope.end()},
                             /*isMessage=*/false,
                             static_cast<uint32_t>(index)});
  }
  for (std::vector<uint32_t> &list : greedy.neighbours) {
    llvm::sort(list);
    list.erase(llvm::unique(list), list.end());
  }
  using Key = std::tuple<double, uint32_t, uint32_t>;
  auto keyOf = [&](uint32_t node) {
    return Key(greedy.weightOf(node), greedy.touched[node], node);
  };
  std::set<Key> queue;
  std::vector<Key> keys;
  for (uint32_t node = 0; node < numNodes; ++node) {
    keys.push_back(keyOf(node));
    queue.insert(keys.back());
  }
  EliminationOrder order;
  while (!queue.empty()) {
    auto [weight, touched, node] = *queue.begin();
    order.largestTable = std::max(order.largestTable, weight);
    order.width = std::max(order.width, greedy.neighbours[node].size());
    if (weight > maxTableEntries) {
      order.fits = false;
      return order;
    }
    order.totalEntries += weight;
    queue.erase(queue.begin());
    EliminationStep step = greedy.eliminate(node, order.steps.size());
    for (uint32_t other : step.scope) {
      queue.erase(keys[other]);
      keys[other] = keyOf(other);
      queue.insert(keys[other]);
    }
    order.steps.push_back(std::move(step));
  }
  return order;
}

template EliminationOrder EliminationOrder::find(const Model<int64_t> &,
                                                 double);
template EliminationOrder EliminationOrder::find(const Model<Sum> &, double);
