//===- Prune.cpp - choices that no optimal solution needs -----------------===//
//
// Choice a dominates b if
//
//     cost(a) - cost(b) + sum_e max_rest (e(a, rest) - e(b, rest)) <= 0
//
// and a uses no more of any row: a solution with b gets no worse by taking a.
// Nodes with equal tables (repeated layers) are judged once. A node costs
// O(choices^2 * entries of its factors) at most; nodes beyond a work limit are
// skipped. Where b costs least, a mostly costs more: that entry of each factor
// is looked at first, and rules out most pairs.
//
//===----------------------------------------------------------------------===//
#include "Model.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace kerf::plan;

namespace {

/// A factor seen from one of its nodes: entry (o, choice, i) of a three-way
/// view outer x choices x inner.
template <typename V> struct View {
  const V *values;
  size_t outer, inner;
  /// Of each choice: where it costs least, without its own part of the index.
  std::vector<size_t> minEntry = {};
};

template <typename V> struct Pruner {
  Model<V> &model;
  const std::vector<std::vector<uint32_t>> adjacency;
  std::map<std::vector<int64_t>, std::vector<char>> known;

  explicit Pruner(Model<V> &model)
      : model(model), adjacency(model.adjacency()) {}

  std::vector<int64_t> keyOf(uint32_t node) const;
  std::vector<char> judge(uint32_t node) const;
  bool dominates(uint32_t node, const std::vector<View<V>> &views, size_t a,
                 size_t b) const;
  const std::vector<char> &keep(uint32_t node) {
    auto [it, isNew] = known.try_emplace(keyOf(node));
    if (isNew)
      it->second = judge(node);
    return it->second;
  }
};

} // namespace

template <typename V>
static size_t axisOf(const typename Model<V>::Factor &factor, uint32_t node) {
  return llvm::find(factor.scope, node) - factor.scope.begin();
}

/// Everything that determines which choices of a node are dominated.
template <typename V>
std::vector<int64_t> Pruner<V>::keyOf(uint32_t node) const {
  std::vector<int64_t> key = {model.unary[node]};
  for (uint32_t index : adjacency[node]) {
    key.push_back(model.factors[index].table);
    key.push_back(axisOf<V>(model.factors[index], node));
  }
  key.push_back(-1);
  for (const RowUsage &usage : model.usages[node])
    key.insert(key.end(), usage.amounts.begin(), usage.amounts.end());
  return key;
}

template <typename V>
bool Pruner<V>::dominates(uint32_t node, const std::vector<View<V>> &views,
                          size_t a, size_t b) const {
  for (const RowUsage &usage : model.usages[node])
    if (usage.amounts[a] > usage.amounts[b])
      return false;
  size_t choices = model.numChoices(node);
  // Of equal choices the first one dominates.
  auto isTooMuch = [&](V worst) { return worst > 0 || (worst == 0 && a > b); };
  // A part of the sum; `worst` is never more than the sum.
  auto minOf = [&](const View<V> &view) {
    const V *entry = view.values + view.minEntry[b];
    V costA = entry[a * view.inner];
    return blocked(costA) ? infinity<V>() : costA - entry[b * view.inner];
  };
  V worst = model.costs(node)[a] - model.costs(node)[b];
  for (const View<V> &view : views) {
    V more = minOf(view);
    if (more == infinity<V>())
      return false;
    worst += more;
  }
  if (isTooMuch(worst))
    return false;
  for (const View<V> &view : views) {
    V max = minOf(view);
    worst -= max;
    for (size_t o = 0; o < view.outer; ++o) {
      model.countEntries(view.inner);
      const V *rowA = view.values + (o * choices + a) * view.inner;
      const V *rowB = view.values + (o * choices + b) * view.inner;
      for (size_t i = 0; i < view.inner; ++i) {
        if (blocked(rowB[i]))
          continue;
        if (blocked(rowA[i]))
          return false;
        if (V more = rowA[i] - rowB[i]; more > max) {
          max = more;
          if (isTooMuch(worst + max))
            return false;
        }
      }
    }
    worst += max;
  }
  return true;
}

template <typename V> std::vector<char> Pruner<V>::judge(uint32_t node) const {
  size_t choices = model.numChoices(node);
  std::vector<char> keep(choices, 1);
  std::vector<View<V>> views;
  size_t entries = 0;
  for (uint32_t index : adjacency[node]) {
    const auto &factor = model.factors[index];
    const Table<V> &table = model.store[factor.table];
    size_t axis = axisOf<V>(factor, node);
    View<V> view{table.values.data(), 1, 1};
    for (size_t i = 0; i < table.dims.size(); ++i)
      (i < axis ? view.outer : view.inner) *= i == axis ? 1 : table.dims[i];
    entries += view.outer * view.inner;
    views.push_back(view);
  }
  model.countEntries(choices * (entries + choices));
  for (size_t c = 0; c < choices; ++c) {
    bool possible = !blocked(model.costs(node)[c]);
    for (View<V> &view : views) {
      V min = infinity<V>();
      size_t &at = view.minEntry.emplace_back(0);
      for (size_t o = 0; o < view.outer; ++o) {
        size_t first = o * choices * view.inner;
        const V *row = view.values + first + c * view.inner;
        for (size_t i = 0; i < view.inner; ++i)
          if (row[i] < min) {
            min = row[i];
            at = first + i;
          }
      }
      possible &= !blocked(min);
    }
    keep[c] = possible;
  }
  constexpr double kBudget = 2e7;
  if (static_cast<double>(choices) * static_cast<double>(choices) *
          static_cast<double>(entries + 1) >
      kBudget)
    return keep;
  for (size_t b = 0; b < choices; ++b)
    for (size_t a = 0; a < choices && keep[b]; ++a)
      if (a != b && keep[a] && dominates(node, views, a, b))
        keep[b] = 0;
  return keep;
}

template <typename V>
void kerf::plan::pruneDominated(Model<V> &model, int rounds) {
  for (int round = 0; round < rounds && !model.infeasible; ++round) {
    Pruner<V> pruner(model);
    model.count(WorkPiece::Visit,
                static_cast<double>(model.numNodes() + model.factors.size()));
    std::vector<std::vector<char>> keep(model.numNodes());
    bool changed = false;
    for (uint32_t node = 0; node < model.numNodes(); ++node) {
      if (model.numChoices(node) <= 1) {
        keep[node].assign(model.numChoices(node), 1);
        continue;
      }
      keep[node] = pruner.keep(node);
      changed |= llvm::is_contained(keep[node], 0);
      if (!llvm::is_contained(keep[node], 1)) {
        model.infeasible = true;
        return;
      }
    }
    if (!changed)
      return;
    model.keepChoices(keep);
    model.tidy();
  }
}

template void kerf::plan::pruneDominated(Model<int64_t> &, int);
template void kerf::plan::pruneDominated(Model<Sum> &, int);
