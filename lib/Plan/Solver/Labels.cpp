//===- Labels.cpp - exact search under limits -----------------------------===//
//
// One list of labels per entry of a message. A label keeps its true cost, its
// priced cost (for the bound), its loads on the chosen rows, and where it came
// from: either a node's choice, or two older labels put together.
//
//===----------------------------------------------------------------------===//
#include "Labels.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace kerf::plan;

static constexpr size_t kMaxRows = 6;

namespace {

/// R: number of loads in a label. A template parameter, since sorting moves
/// labels.
template <typename V, size_t R> struct Label {
  V cost, priced;
  std::array<int64_t, R> load;
  uint32_t origin;
};

/// Either two origins, or (node, choice) with isChoice.
struct Origin {
  uint32_t a, b;
  bool isChoice;
};

template <typename V, size_t R> using LabelList = std::vector<Label<V, R>>;

template <typename V, size_t R> struct LabelSearch {
  Dual<V> &dual;
  Model<V> &model;
  const EliminationOrder &order;
  llvm::ArrayRef<uint32_t> rows;
  V upperBound;
  size_t maxLabels;
  size_t beam;
  const Clock &clock;

  std::vector<TableId> priced;
  typename Elimination<V>::Marginals marginals;
  /// Offsets of the messages below and including a step.
  std::vector<V> subtreeOffset;
  /// lists[step][entry of the message]
  std::vector<std::vector<LabelList<V, R>>> lists;
  std::vector<Origin> origins;
  size_t created = 0;
  bool gaveUp = false, dropped = false;

  LabelSearch(Dual<V> &dual, const EliminationOrder &order,
              llvm::ArrayRef<uint32_t> rows, V upperBound, size_t maxLabels,
              size_t beam, const Clock &clock)
      : dual(dual), model(dual.model), order(order), rows(rows),
        upperBound(upperBound), maxLabels(maxLabels), beam(beam), clock(clock) {
  }

  std::array<int64_t, R> loadOf(uint32_t node, uint32_t choice) const;
  bool keeps(const Label<V, R> &label) const;
  uint32_t origin(Origin from) {
    origins.push_back(from);
    return origins.size() - 1;
  }
  /// All pairs whose bound, priced + rest, stays below `cutoff`.
  LabelList<V, R> join(const LabelList<V, R> &left,
                       const LabelList<V, R> &right, V cutoff);
  void prune(LabelList<V, R> &list);
  void narrow(LabelList<V, R> &list);
  void expand(size_t stepIndex);
  LabelList<V, R> joinRoots();
  std::vector<uint32_t> trace(uint32_t origin) const;
};

} // namespace

template <typename V, size_t R>
std::array<int64_t, R> LabelSearch<V, R>::loadOf(uint32_t node,
                                                 uint32_t choice) const {
  std::array<int64_t, R> load = {};
  for (const RowUsage &usage : model.usages[node])
    for (size_t i = 0; i < rows.size(); ++i)
      if (usage.begin <= rows[i] && rows[i] < usage.end)
        load[i] += usage.amounts[choice];
  return load;
}

template <typename V, size_t R>
bool LabelSearch<V, R>::keeps(const Label<V, R> &label) const {
  for (size_t i = 0; i < rows.size(); ++i)
    if (label.load[i] > model.rows[rows[i]].limit)
      return false;
  return true;
}

/// Drops labels that another one beats in cost and in every load.
template <typename V, size_t R>
void LabelSearch<V, R>::prune(LabelList<V, R> &list) {
  model.count(WorkPiece::Label, static_cast<double>(list.size()));
  llvm::sort(list, [&](const Label<V, R> &a, const Label<V, R> &b) {
    return std::tie(a.cost, a.load, a.origin) <
           std::tie(b.cost, b.load, b.origin);
  });
  size_t kept = 0;
  if (rows.size() == 2) {
    // The kept labels as a staircase: for each load 0 the least load 1 up to
    // there.
    std::map<int64_t, int64_t> stairs;
    for (size_t i = 0; i < list.size(); ++i) {
      const Label<V, R> &label = list[i];
      auto after = stairs.upper_bound(label.load[0]);
      if (after != stairs.begin() && std::prev(after)->second <= label.load[1])
        continue;
      while (after != stairs.end() && after->second >= label.load[1])
        after = stairs.erase(after);
      stairs[label.load[0]] = label.load[1];
      list[kept++] = label;
    }
  }
  for (size_t i = 0; rows.size() != 2 && i < list.size(); ++i) {
    bool beaten = false;
    // With one row the last kept label, which has the least load, decides.
    size_t from = rows.size() == 1 && kept > 0 ? kept - 1 : 0;
    for (size_t k = from; k < kept && !beaten; ++k) {
      beaten = true;
      for (size_t r = 0; r < rows.size() && beaten; ++r)
        beaten = list[k].load[r] <= list[i].load[r];
    }
    if (!beaten)
      list[kept++] = list[i];
  }
  list.resize(kept);
  if (beam > 0 && kept > beam)
    narrow(list);
}

/// Reduces a pruned list to `beam` labels: one half are the cheapest at the
/// prices, the other half is spread evenly over the Pareto front, from
/// expensive with little load to cheap with much, so that later steps can
/// balance the load.
template <typename V, size_t R>
void LabelSearch<V, R>::narrow(LabelList<V, R> &list) {
  dropped = true;
  std::vector<uint32_t> byPrice(list.size());
  std::iota(byPrice.begin(), byPrice.end(), 0);
  llvm::sort(byPrice, [&](uint32_t a, uint32_t b) {
    return std::tie(list[a].priced, a) < std::tie(list[b].priced, b);
  });
  std::vector<char> keep(list.size(), 0);
  for (size_t i = 0; i < beam / 2; ++i)
    keep[byPrice[i]] = 1;
  size_t spread = beam - beam / 2;
  for (size_t i = 0; i < spread; ++i)
    keep[i * (list.size() - 1) / std::max<size_t>(spread - 1, 1)] = 1;
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i)
    if (keep[i])
      list[kept++] = list[i];
  list.resize(kept);
}

template <typename V, size_t R>
LabelList<V, R> LabelSearch<V, R>::join(const LabelList<V, R> &left,
                                        const LabelList<V, R> &right,
                                        V cutoff) {
  LabelList<V, R> out;
  // Only labels that survive get a permanent origin.
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Label<V, R> &a : left) {
    model.countEntries(right.size());
    for (const Label<V, R> &b : right) {
      Label<V, R> sum;
      sum.priced = a.priced + b.priced;
      if (sum.priced >= cutoff)
        continue;
      sum.cost = a.cost + b.cost;
      for (size_t r = 0; r < R; ++r)
        sum.load[r] = a.load[r] + b.load[r];
      if (!keeps(sum))
        continue;
      if (++created > maxLabels || (created % 65536 == 0 && clock.expired())) {
        gaveUp = true;
        return {};
      }
      sum.origin = pairs.size();
      pairs.push_back({a.origin, b.origin});
      out.push_back(sum);
    }
  }
  prune(out);
  for (Label<V, R> &label : out)
    label.origin =
        origin({pairs[label.origin].first, pairs[label.origin].second, false});
  return out;
}

template <typename V, size_t R>
void LabelSearch<V, R>::expand(size_t stepIndex) {
  const EliminationStep &step = order.steps[stepIndex];
  const std::vector<V> &completion = marginals.completions[stepIndex];
  size_t numChoices = model.numChoices(step.node);
  subtreeOffset[stepIndex] = dual.elimination.offsetOf(stepIndex);
  for (const EliminationStep::Input &input : step.inputs)
    if (input.isMessage)
      subtreeOffset[stepIndex] += subtreeOffset[input.index];
  lists[stepIndex].resize(completion.size());
  llvm::SmallVector<uint32_t, 4> index(step.scope.size() + 1, 0);
  for (size_t row = 0; row < completion.size() && !gaveUp; ++row) {
    LabelList<V, R> &out = lists[stepIndex][row];
    // A label of this entry survives while priced < cutoff:
    //   priced - subtree offset + completion - constant < upper bound
    V cutoff = upperBound + dual.lastConstant - completion[row] +
               subtreeOffset[stepIndex];
    for (size_t c = 0; c < numChoices && !blocked(completion[row]) && !gaveUp;
         ++c) {
      index.back() = c;
      auto entryOf = [&](const EliminationStep::Input &input) {
        const Table<V> &table = dual.elimination.tableOf(input);
        size_t entry = 0;
        for (size_t i = 0; i < table.dims.size(); ++i)
          entry = entry * table.dims[i] + index[input.positions[i]];
        return entry;
      };
      V own = model.costs(step.node)[c];
      V ownPriced = model.store[priced[step.node]].values[c];
      V rest = 0; // least priced cost of the messages
      for (const EliminationStep::Input &input : step.inputs) {
        V value = dual.elimination.tableOf(input).values[entryOf(input)];
        if (input.isMessage) {
          rest = addCosts<V>(rest, value);
          if (!blocked(rest))
            rest += subtreeOffset[input.index];
        } else {
          own = addCosts<V>(own, value);
          ownPriced = addCosts<V>(ownPriced, value);
        }
      }
      if (blocked(own) || blocked(ownPriced) || blocked(rest) ||
          ownPriced + rest >= cutoff)
        continue;
      Label<V, R> seed{own, ownPriced, loadOf(step.node, c), 0};
      if (!keeps(seed))
        continue;
      seed.origin = origin({step.node, static_cast<uint32_t>(c), true});
      LabelList<V, R> partial = {seed};
      for (const EliminationStep::Input &input : step.inputs) {
        if (!input.isMessage || partial.empty() || gaveUp)
          continue;
        size_t entry = entryOf(input);
        rest -= dual.elimination.tableOf(input).values[entry] +
                subtreeOffset[input.index];
        partial = join(partial, lists[input.index][entry], cutoff - rest);
      }
      out.insert(out.end(), partial.begin(), partial.end());
    }
    prune(out);
    for (size_t axis = step.scope.size(); axis-- > 0;) {
      if (++index[axis] < model.numChoices(step.scope[axis]))
        break;
      index[axis] = 0;
    }
  }
}

template <typename V, size_t R> LabelList<V, R> LabelSearch<V, R>::joinRoots() {
  V rest = model.constant;
  for (size_t step = 0; step < order.steps.size(); ++step)
    if (order.steps[step].scope.empty())
      rest += subtreeOffset[step];
  LabelList<V, R> all = {{0, 0, {}, origin({0, 0, true})}};
  all[0].origin = UINT32_MAX;
  for (size_t step = 0; step < order.steps.size() && !gaveUp; ++step) {
    if (!order.steps[step].scope.empty())
      continue;
    rest -= subtreeOffset[step];
    all = join(all, lists[step][0], upperBound + dual.lastConstant - rest);
  }
  return all;
}

template <typename V, size_t R>
std::vector<uint32_t> LabelSearch<V, R>::trace(uint32_t from) const {
  std::vector<uint32_t> choices(model.numNodes(), 0), work = {from};
  while (!work.empty()) {
    uint32_t at = work.back();
    work.pop_back();
    if (at == UINT32_MAX)
      continue;
    const Origin &origin = origins[at];
    if (origin.isChoice) {
      choices[origin.a] = origin.b;
    } else {
      work.push_back(origin.a);
      work.push_back(origin.b);
    }
  }
  return choices;
}

template <typename V, size_t R>
static LabelResult<V>
searchOver(Dual<V> &dual, const EliminationOrder &order,
           llvm::ArrayRef<uint32_t> rows, const std::vector<Sum> &prices,
           V upperBound, size_t maxLabels, size_t beam, const Clock &clock) {
  LabelResult<V> result;
  typename Dual<V>::Point point = dual.evaluate(prices);
  if (point.blocked || point.bound >= upperBound) {
    result.complete = true;
    return result;
  }
  LabelSearch<V, R> search(dual, order, rows, upperBound, maxLabels, beam,
                           clock);
  V constant;
  search.priced = dual.penalised(prices, constant);
  search.marginals = dual.marginals();
  search.subtreeOffset.assign(order.steps.size(), 0);
  search.lists.resize(order.steps.size());
  for (size_t step = 0; step < order.steps.size() && !search.gaveUp; ++step) {
    search.expand(step);
    // Consumed lists are not needed any more; only their origins are.
    for (const EliminationStep::Input &input : order.steps[step].inputs)
      if (input.isMessage)
        std::vector<LabelList<V, R>>().swap(search.lists[input.index]);
  }
  LabelList<V, R> all;
  if (!search.gaveUp)
    all = search.joinRoots();
  result.labels = search.created;
  result.complete = !search.gaveUp && !search.dropped;
  if (!search.gaveUp && !all.empty() &&
      all.front().cost + dual.model.constant < upperBound)
    result.choices = search.trace(all.front().origin);
  return result;
}

template <typename V>
LabelResult<V>
kerf::plan::searchLabels(Dual<V> &dual, const EliminationOrder &order,
                         llvm::ArrayRef<uint32_t> rows,
                         const std::vector<Sum> &prices, V upperBound,
                         size_t maxLabels, size_t beam, const Clock &clock) {
  auto search = [&](auto numRows) {
    return searchOver<V, decltype(numRows)::value>(
        dual, order, rows, prices, upperBound, maxLabels, beam, clock);
  };
  if (rows.size() > kMaxRows)
    return {};
  if (rows.size() <= 1)
    return search(std::integral_constant<size_t, 1>());
  if (rows.size() == 2)
    return search(std::integral_constant<size_t, 2>());
  if (rows.size() == 3)
    return search(std::integral_constant<size_t, 3>());
  return search(std::integral_constant<size_t, kMaxRows>());
}

template LabelResult<int64_t>
kerf::plan::searchLabels(Dual<int64_t> &, const EliminationOrder &,
                         llvm::ArrayRef<uint32_t>, const std::vector<Sum> &,
                         int64_t, size_t, size_t, const Clock &);
template LabelResult<Sum>
kerf::plan::searchLabels(Dual<Sum> &, const EliminationOrder &,
                         llvm::ArrayRef<uint32_t>, const std::vector<Sum> &,
                         Sum, size_t, size_t, const Clock &);
