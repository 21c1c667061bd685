//===- EliminationOrder.cpp - the order of elimination --------------------===//
//
// Greedy by the size of the joint table. Candidates are kept in an ordered set,
// in which the neighbours of an eliminated node are updated. O(nodes *
// (degree^2 + log nodes)) for graphs of bounded width.
//
//===----------------------------------------------------------------------===//
#include "Elimination.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

using namespace kerf::plan;

namespace {

/// A table that no step has used yet.
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
  /// Uses up the pieces; the message becomes a new piece.
  EliminationStep makeStep(uint32_t node, llvm::ArrayRef<uint32_t> ids,
                           uint32_t stepIndex);
  void connect(uint32_t node, llvm::ArrayRef<uint32_t> scope);
  std::vector<std::vector<uint32_t>> split(uint32_t node, double limit) const;
};

} // namespace

EliminationStep Greedy::makeStep(uint32_t node, llvm::ArrayRef<uint32_t> ids,
                                 uint32_t stepIndex) {
  EliminationStep step;
  step.node = node;
  for (uint32_t id : ids)
    for (uint32_t other : pieces[id].scope)
      if (other != node)
        step.scope.push_back(other);
  llvm::sort(step.scope);
  step.scope.erase(llvm::unique(step.scope), step.scope.end());
  auto positionOf = [&](uint32_t other) -> uint32_t {
    if (other == node)
      return step.scope.size();
    return llvm::lower_bound(step.scope, other) - step.scope.begin();
  };
  for (uint32_t id : ids) {
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
  for (uint32_t other : step.scope)
    piecesOf[other].push_back(pieces.size());
  pieces.push_back({step.scope, /*isMessage=*/true, stepIndex});
  return step;
}

/// The scope becomes a clique without the node.
void Greedy::connect(uint32_t node, llvm::ArrayRef<uint32_t> scope) {
  for (uint32_t other : scope) {
    touched[other] = std::max(touched[other], touched[node] + 1);
    std::vector<uint32_t> merged;
    std::set_union(neighbours[other].begin(), neighbours[other].end(),
                   scope.begin(), scope.end(), std::back_inserter(merged));
    llvm::erase_if(merged, [&](uint32_t n) { return n == other || n == node; });
    neighbours[other] = std::move(merged);
  }
}

/// First fit, largest pieces first: which pieces share a copy of the node.
std::vector<std::vector<uint32_t>> Greedy::split(uint32_t node,
                                                 double limit) const {
  struct Copy {
    std::vector<uint32_t> ids, scope;
  };
  auto entries = [&](llvm::ArrayRef<uint32_t> scope) {
    double product = 1;
    for (uint32_t other : scope)
      product *= sizes[other];
    return product;
  };
  std::vector<uint32_t> ids = piecesOf[node];
  llvm::sort(ids, [&](uint32_t a, uint32_t b) {
    double x = entries(pieces[a].scope), y = entries(pieces[b].scope);
    return x != y ? x > y : a < b;
  });
  std::vector<Copy> copies;
  for (uint32_t id : ids) {
    bool placed = false;
    for (Copy &copy : copies) {
      std::vector<uint32_t> joint;
      std::set_union(copy.scope.begin(), copy.scope.end(),
                     pieces[id].scope.begin(), pieces[id].scope.end(),
                     std::back_inserter(joint));
      if (entries(joint) > limit)
        continue;
      copy.ids.push_back(id);
      copy.scope = std::move(joint);
      placed = true;
      break;
    }
    if (!placed)
      copies.push_back(
          {{id}, {pieces[id].scope.begin(), pieces[id].scope.end()}});
  }
  std::vector<std::vector<uint32_t>> result;
  for (Copy &copy : copies)
    result.push_back(std::move(copy.ids));
  return result;
}

template <typename V>
static EliminationOrder findOrder(const Model<V> &model, double limit,
                                  bool splitting) {
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
  model.count(WorkPiece::Visit,
              static_cast<double>(numNodes + model.factors.size()));
  while (!queue.empty()) {
    auto [weight, touched, node] = *queue.begin();
    order.width = std::max(order.width, greedy.neighbours[node].size());
    if (weight > limit && !splitting) {
      order.maxTableEntries = std::max(order.maxTableEntries, weight);
      order.fits = false;
      return order;
    }
    queue.erase(queue.begin());
    std::vector<std::vector<uint32_t>> copies = {greedy.piecesOf[node]};
    if (weight > limit && !copies[0].empty())
      copies = greedy.split(node, limit);
    std::vector<uint32_t> affected = greedy.neighbours[node];
    for (uint32_t other : affected)
      llvm::erase(greedy.neighbours[other], node);
    for (auto [index, ids] : llvm::enumerate(copies)) {
      EliminationStep step = greedy.makeStep(node, ids, order.steps.size());
      step.groupSize = index == 0 ? copies.size() : 0;
      greedy.connect(node, step.scope);
      for (uint32_t other : step.scope)
        model.count(WorkPiece::Pair,
                    static_cast<double>(greedy.neighbours[other].size() + 1));
      double entries = greedy.sizes[node];
      for (uint32_t other : step.scope)
        entries *= greedy.sizes[other];
      order.maxTableEntries = std::max(order.maxTableEntries, entries);
      order.totalEntries += entries;
      order.steps.push_back(std::move(step));
    }
    order.splits += copies.size() - 1;
    for (uint32_t other : affected) {
      queue.erase(keys[other]);
      keys[other] = keyOf(other);
      queue.insert(keys[other]);
    }
  }
  return order;
}

template <typename V>
EliminationOrder EliminationOrder::find(const Model<V> &model,
                                        double maxTableEntries) {
  return findOrder(model, maxTableEntries, /*splitting=*/false);
}
template <typename V>
EliminationOrder EliminationOrder::findSplitting(const Model<V> &model,
                                                 double maxTableEntries) {
  return findOrder(model, maxTableEntries, /*splitting=*/true);
}

template EliminationOrder EliminationOrder::find(const Model<int64_t> &,
                                                 double);
template EliminationOrder EliminationOrder::find(const Model<Sum> &, double);
template EliminationOrder
EliminationOrder::findSplitting(const Model<int64_t> &, double);
template EliminationOrder EliminationOrder::findSplitting(const Model<Sum> &,
                                                          double);
