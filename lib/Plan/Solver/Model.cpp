//===- Model.cpp - a Problem made ready for solving -----------------------===//
//
// See Model.h. Everything here is linear in the tables, up to sorting.
//
//===----------------------------------------------------------------------===//
#include "Model.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

using namespace kerf::plan;

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

static Sum absolute(Sum value) { return value < 0 ? -value : value; }

static unsigned bitsOf(Sum value) {
  unsigned bits = 0;
  for (; value > 0; value >>= 1)
    ++bits;
  return bits;
}

LevelWeights LevelWeights::of(const Problem &problem) {
  // For each level: how far apart two solutions can be, and how large.
  Sum range[kNumLevels] = {}, maxAbsolute[kNumLevels] = {},
      max[kNumLevels] = {};
  auto account = [&](const CostTable &table, Sum times) {
    for (unsigned level = 0; level < kNumLevels; ++level) {
      const std::vector<int64_t> &values = table.levels[level];
      bool any = false;
      Sum low = 0, high = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        if (table.isForbidden(i))
          continue;
        Sum value = values[i];
        low = any ? std::min(low, value) : value;
        high = any ? std::max(high, value) : value;
        any = true;
      }
      range[level] += times * (high - low);
      max[level] += times * high;
      maxAbsolute[level] += times * std::max(absolute(low), absolute(high));
    }
  };
  for (const Problem::Node &node : problem.nodes)
    account(node.costs, 1);
  std::vector<Sum> uses(problem.tables.size(), 0);
  for (const Problem::Edge &edge : problem.edges)
    uses[edge.table] += 1;
  for (size_t table = 0; table < problem.tables.size(); ++table)
    if (uses[table] > 0)
      account(problem.tables[table], uses[table]);

  // 116 bits for all levels: level 0 in full, the others share the rest. A
  // shifted entry is rounded down, by at most one unit per table, hence the
  // added count.
  LevelWeights weights;
  auto tables = static_cast<Sum>(problem.nodes.size() + problem.edges.size());
  constexpr unsigned kBits = 116;
  unsigned used = bitsOf(maxAbsolute[0]) + 1;
  Sum scaled[kNumLevels] = {};
  for (unsigned level = 1; level < kNumLevels; ++level) {
    if (range[level] == 0)
      continue;
    unsigned need = bitsOf(range[level] + 2 * tables) + 1;
    unsigned left = used < kBits ? kBits - used : 0;
    bool isLast = level + 1 == kNumLevels || range[level + 1] == 0;
    unsigned share = isLast ? left : left - std::min(left / 2, 50u);
    unsigned shift = need > share ? need - share : 0;
    if (shift >= bitsOf(range[level]))
      continue; // nothing of the level is left
    weights.shift[level] = shift;
    scaled[level] = (range[level] >> shift) + (shift ? tables : 0) + 1;
    used += std::min(need, share);
  }
  Sum below = 0; // what all lower levels together differ by at most
  for (unsigned level = kNumLevels; level-- > 0;) {
    weights.weight[level] = level == 0 || scaled[level] ? below + 1 : 0;
    below += scaled[level] * weights.weight[level];
  }
  for (unsigned level = 0; level < kNumLevels; ++level) {
    Sum slack = weights.shift[level] ? tables : 0;
    weights.magnitude +=
        ((maxAbsolute[level] >> weights.shift[level]) + slack) *
        weights.weight[level];
    if (level > 0)
      weights.maxBelow += ((max[level] >> weights.shift[level]) + slack) *
                          weights.weight[level];
  }
  return weights;
}

Sum LevelWeights::combine(const CostTable &table, size_t entry) const {
  Sum sum = 0;
  for (unsigned level = 0; level < kNumLevels; ++level)
    if (weight[level] != 0)
      sum += (Sum(table.at(level, entry)) >> shift[level]) * weight[level];
  return sum;
}

Sum LevelWeights::primaryBound(Sum combined) const {
  // combined <= c0*w0 + maxBelow, so c0 >= (combined - maxBelow) / w0.
  Sum rest = combined - maxBelow;
  Sum quotient = rest / weight[0];
  if (rest % weight[0] != 0 && rest > 0)
    ++quotient;
  return quotient;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// `values` with their axes in another order: order[i] is the old axis that
/// becomes axis i.
template <typename V>
static std::vector<V> transpose(const std::vector<V> &values,
                                llvm::ArrayRef<uint32_t> dims,
                                llvm::ArrayRef<uint32_t> order) {
  llvm::SmallVector<size_t, 4> strides(dims.size(), 1);
  for (size_t axis = dims.size() - 1; axis-- > 0;)
    strides[axis] = strides[axis + 1] * dims[axis + 1];
  std::vector<V> out;
  out.reserve(values.size());
  llvm::SmallVector<uint32_t, 4> index(dims.size(), 0);
  for (size_t n = 0; n < values.size(); ++n) {
    size_t entry = 0;
    for (auto [i, axis] : llvm::enumerate(order))
      entry += index[i] * strides[axis];
    out.push_back(values[entry]);
    for (size_t i = order.size(); i-- > 0;) {
      if (++index[i] < dims[order[i]])
        break;
      index[i] = 0;
    }
  }
  return out;
}

/// The entries of kept choices.
template <typename V>
static Table<V> slice(const Table<V> &table, llvm::ArrayRef<uint32_t> scope,
                      llvm::ArrayRef<std::vector<char>> keep) {
  Table<V> out;
  for (uint32_t node : scope)
    out.dims.push_back(llvm::count(keep[node], 1));
  llvm::SmallVector<uint32_t, 4> index(scope.size(), 0);
  for (V value : table.values) {
    bool kept = true;
    for (auto [axis, node] : llvm::enumerate(scope))
      kept &= keep[node][index[axis]] != 0;
    if (kept)
      out.values.push_back(value);
    for (size_t axis = scope.size(); axis-- > 0;) {
      if (++index[axis] < table.dims[axis])
        break;
      index[axis] = 0;
    }
  }
  return out;
}

template <typename V>
Model<V>::Model(const Problem &problem, const LevelWeights &weights,
                Effort *effort)
    : weights(weights), effort(effort) {
  count(WorkPiece::Visit,
        static_cast<double>(problem.nodes.size() + problem.edges.size()));
  auto convert = [&](const CostTable &table) {
    std::vector<V> values(table.size());
    countEntries(2 * values.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = table.isForbidden(i)
                      ? infinity<V>()
                      : static_cast<V>(weights.combine(table, i));
    return values;
  };
  for (const Problem::Node &node : problem.nodes) {
    auto size = static_cast<uint32_t>(node.costs.size());
    unary.push_back(store.intern({{size}, convert(node.costs)}));
    std::vector<uint32_t> &all = choiceOf.emplace_back(size);
    std::iota(all.begin(), all.end(), 0);
  }
  usages.resize(numNodes());
  // Scopes ascend; a table whose edge lists its nodes otherwise is transposed.
  std::map<std::pair<uint32_t, llvm::SmallVector<uint32_t, 3>>, TableId> done;
  for (const Problem::Edge &edge : problem.edges) {
    llvm::SmallVector<uint32_t, 3> order =
        llvm::to_vector<3>(llvm::seq<uint32_t>(0, edge.nodes.size()));
    llvm::sort(order, [&](uint32_t a, uint32_t b) {
      return edge.nodes[a] < edge.nodes[b];
    });
    Factor factor;
    for (uint32_t axis : order)
      factor.scope.push_back(edge.nodes[axis]);
    auto [it, isNew] = done.try_emplace({edge.table, order}, 0);
    if (isNew) {
      Table<V> table;
      table.values = convert(problem.tables[edge.table]);
      llvm::SmallVector<uint32_t, 3> dims;
      for (uint32_t node : edge.nodes)
        dims.push_back(problem.numChoices(node));
      if (!llvm::is_sorted(order))
        table.values = transpose<V>(table.values, dims, order);
      for (uint32_t axis : order)
        table.dims.push_back(dims[axis]);
      it->second = store.intern(std::move(table));
    }
    factor.table = it->second;
    factors.push_back(std::move(factor));
  }
  buildRows(problem);
  tidy();
}

template <typename V> void Model<V>::buildRows(const Problem &problem) {
  for (auto [index, resource] : llvm::enumerate(problem.resources)) {
    if (!resource.limit)
      continue;
    count(WorkPiece::Visit, static_cast<double>(resource.usages.size()));
    // Sweep: a row for each instant after which something ends and before
    // which something has begun since the last row.
    struct Event {
      int64_t time;
      bool begins;
      uint32_t usage;
    };
    std::vector<Event> events;
    for (auto [id, usage] : llvm::enumerate(resource.usages))
      if (!usage.live.empty() &&
          llvm::any_of(usage.amounts, [](int64_t a) { return a > 0; })) {
        events.push_back({usage.live.begin, true, uint32_t(id)});
        events.push_back({usage.live.end, false, uint32_t(id)});
      }
    llvm::sort(events, [](const Event &a, const Event &b) {
      return std::tie(a.time, a.begins, a.usage) <
             std::tie(b.time, b.begins, b.usage);
    });
    std::vector<uint32_t> firstRow(resource.usages.size());
    bool begun = false;
    int64_t beginTime = 0;
    for (const Event &event : events) {
      const Problem::Usage &usage = resource.usages[event.usage];
      if (event.begins) {
        firstRow[event.usage] = rows.size();
        begun = true;
        beginTime = event.time;
        continue;
      }
      if (begun)
        rows.push_back({uint32_t(index), uint32_t(rows.size()), beginTime,
                        *resource.limit, 0});
      begun = false;
      usages[usage.node].push_back({firstRow[event.usage],
                                    static_cast<uint32_t>(rows.size()),
                                    usage.amounts});
    }
  }
}

//===----------------------------------------------------------------------===//
// Tidying
//===----------------------------------------------------------------------===//

template <typename V> void Model<V>::tidy() {
  count(WorkPiece::Visit, static_cast<double>(numNodes() + factors.size()));
  foldSingles();
  mergeFactors();
  tightenRows();
}

template <typename V> void Model<V>::foldSingles() {
  auto addToUnary = [&](uint32_t node, const std::vector<V> &extra) {
    Table<V> sum = store[unary[node]];
    for (size_t i = 0; i < extra.size(); ++i)
      sum.values[i] = addCosts(sum.values[i], extra[i]);
    unary[node] = store.intern(std::move(sum));
  };
  std::vector<Factor> kept;
  for (Factor &factor : factors) {
    Factor rest;
    Table<V> table;
    for (uint32_t node : factor.scope)
      if (numChoices(node) > 1) {
        rest.scope.push_back(node);
        table.dims.push_back(numChoices(node));
      }
    if (rest.scope.size() == factor.scope.size()) {
      kept.push_back(std::move(factor));
      continue;
    }
    const std::vector<V> &values = store[factor.table].values;
    if (rest.scope.empty()) {
      constant = addCosts(constant, values[0]);
    } else if (rest.scope.size() == 1) {
      addToUnary(rest.scope[0], std::vector<V>(values));
    } else {
      table.values = values;
      rest.table = store.intern(std::move(table));
      kept.push_back(std::move(rest));
    }
  }
  factors = std::move(kept);
  for (uint32_t node = 0; node < numNodes(); ++node) {
    V min = *llvm::min_element(costs(node));
    if (min == 0)
      continue;
    // Every solution pays for the cheapest choice: that cost moves to the
    // constant.
    constant = addCosts(constant, min);
    if (blocked(min)) {
      infeasible = true;
      continue;
    }
    Table<V> table = store[unary[node]];
    for (V &value : table.values)
      value = blocked(value) ? value : value - min;
    unary[node] = store.intern(std::move(table));
  }
  if (blocked(constant))
    infeasible = true;
}

/// For a table over (a, b) of the form f(a) + g(b): true, with f and g.
template <typename V>
static bool splitsInTwo(const Table<V> &table, std::vector<V> &f,
                        std::vector<V> &g) {
  if (table.dims.size() != 2)
    return false;
  size_t rows = table.dims[0], columns = table.dims[1];
  for (V value : table.values)
    if (blocked(value))
      return false;
  g.assign(table.values.begin(), table.values.begin() + columns);
  f.assign(rows, 0);
  for (size_t a = 0; a < rows; ++a) {
    const V *row = table.values.data() + a * columns;
    f[a] = row[0] - g[0];
    for (size_t b = 1; b < columns; ++b)
      if (row[b] - g[b] != f[a])
        return false;
  }
  return true;
}

template <typename V> void Model<V>::mergeFactors() {
  llvm::sort(factors, [](const Factor &a, const Factor &b) {
    return std::tie(a.scope, a.table) < std::tie(b.scope, b.table);
  });
  std::map<std::pair<TableId, TableId>, TableId> sums;
  std::vector<Factor> merged;
  for (Factor &factor : factors) {
    if (merged.empty() || merged.back().scope != factor.scope) {
      merged.push_back(std::move(factor));
      continue;
    }
    TableId &left = merged.back().table;
    auto [it, isNew] = sums.try_emplace({left, factor.table}, 0);
    if (isNew) {
      Table<V> sum = store[left];
      const std::vector<V> &right = store[factor.table].values;
      countEntries(right.size());
      for (size_t i = 0; i < right.size(); ++i)
        sum.values[i] = addCosts(sum.values[i], right[i]);
      it->second = store.intern(std::move(sum));
    }
    left = it->second;
  }
  // An edge whose table is a sum of unary costs is replaced by these.
  std::vector<char> splitKnown, splits;
  std::vector<Factor> kept;
  std::vector<V> f, g;
  auto add = [&](uint32_t node, const std::vector<V> &extra) {
    Table<V> sum = store[unary[node]];
    for (size_t i = 0; i < extra.size(); ++i)
      sum.values[i] = addCosts(sum.values[i], extra[i]);
    unary[node] = store.intern(std::move(sum));
  };
  for (Factor &factor : merged) {
    if (factor.table >= splitKnown.size()) {
      splitKnown.resize(store.size(), 0);
      splits.resize(store.size(), 0);
    }
    if (!splitKnown[factor.table]) {
      splitKnown[factor.table] = 1;
      splits[factor.table] = splitsInTwo(store[factor.table], f, g);
    }
    if (!splits[factor.table]) {
      kept.push_back(std::move(factor));
      continue;
    }
    splitsInTwo(store[factor.table], f, g);
    add(factor.scope[0], f);
    add(factor.scope[1], g);
  }
  factors = std::move(kept);
}

template <typename V> void Model<V>::tightenRows() {
  // The least usage of each node moves into the base, as differences along the
  // rows.
  std::vector<Sum> base(rows.size() + 1, 0), max(rows.size() + 1, 0);
  for (std::vector<RowUsage> &list : usages)
    for (RowUsage &usage : list) {
      int64_t min = *llvm::min_element(usage.amounts);
      for (int64_t &amount : usage.amounts)
        amount -= min;
      int64_t range = *llvm::max_element(usage.amounts);
      base[usage.begin] += min;
      base[usage.end] -= min;
      max[usage.begin] += range;
      max[usage.end] -= range;
    }
  if (everyRow.empty())
    everyRow = rows;
  std::vector<uint32_t> newIndex(rows.size() + 1);
  std::vector<Row> kept;
  Sum runningBase = 0, runningMax = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    runningBase += base[row];
    runningMax += max[row];
    newIndex[row] = kept.size();
    rows[row].limit -= runningBase;
    rows[row].base += runningBase;
    everyRow[rows[row].id].base = rows[row].base;
    if (rows[row].limit < 0)
      infeasible = true;
    if (runningMax > rows[row].limit)
      kept.push_back(rows[row]);
  }
  newIndex[rows.size()] = kept.size();
  rows = std::move(kept);
  for (std::vector<RowUsage> &list : usages) {
    for (RowUsage &usage : list) {
      usage.begin = newIndex[usage.begin];
      usage.end = newIndex[usage.end];
    }
    llvm::erase_if(list, [](const RowUsage &usage) {
      return usage.begin >= usage.end ||
             llvm::all_of(usage.amounts, [](int64_t a) { return a == 0; });
    });
  }
}

template <typename V> void Model<V>::dropRows() {
  rows.clear();
  for (std::vector<RowUsage> &list : usages)
    list.clear();
  infeasible = blocked(constant);
}

template <typename V>
void Model<V>::keepChoices(llvm::ArrayRef<std::vector<char>> keep) {
  // Masks are numbered by content, so equal slices are made once.
  std::map<std::vector<char>, uint32_t> maskIds;
  std::vector<uint32_t> maskOf(numNodes());
  std::vector<char> touched(numNodes(), 0);
  for (uint32_t node = 0; node < numNodes(); ++node) {
    touched[node] = llvm::is_contained(keep[node], 0);
    maskOf[node] =
        maskIds.try_emplace(keep[node], maskIds.size()).first->second;
  }
  auto filter = [&](uint32_t node, auto &values) {
    size_t out = 0;
    for (size_t i = 0; i < keep[node].size(); ++i)
      if (keep[node][i])
        values[out++] = values[i];
    values.resize(out);
  };
  count(WorkPiece::Visit, static_cast<double>(numNodes() + factors.size()));
  std::map<std::vector<uint32_t>, TableId> slices;
  for (Factor &factor : factors) {
    if (llvm::none_of(factor.scope, [&](uint32_t n) { return touched[n]; }))
      continue;
    std::vector<uint32_t> key = {factor.table};
    for (uint32_t node : factor.scope)
      key.push_back(maskOf[node]);
    auto [it, isNew] = slices.try_emplace(key, 0);
    if (isNew) {
      countEntries(store[factor.table].values.size());
      it->second = store.intern(slice(store[factor.table], factor.scope, keep));
    }
    factor.table = it->second;
  }
  for (uint32_t node = 0; node < numNodes(); ++node) {
    if (!touched[node])
      continue;
    Table<V> table = store[unary[node]];
    filter(node, table.values);
    table.dims[0] = table.values.size();
    unary[node] = store.intern(std::move(table));
    filter(node, choiceOf[node]);
    for (RowUsage &usage : usages[node])
      filter(node, usage.amounts);
  }
}

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

template <typename V>
std::vector<std::vector<uint32_t>> Model<V>::adjacency() const {
  std::vector<std::vector<uint32_t>> result(numNodes());
  for (auto [index, factor] : llvm::enumerate(factors))
    for (uint32_t node : factor.scope)
      result[node].push_back(index);
  return result;
}

template <typename V>
Solution Model<V>::toOriginal(const std::vector<uint32_t> &choices) const {
  Solution solution(choices.size());
  for (size_t node = 0; node < choices.size(); ++node)
    solution[node] = choiceOf[node][choices[node]];
  return solution;
}

template <typename V>
V Model<V>::costOf(const std::vector<uint32_t> &choices) const {
  V sum = constant;
  for (uint32_t node = 0; node < numNodes(); ++node)
    sum = addCosts(sum, costs(node)[choices[node]]);
  for (const Factor &factor : factors) {
    const Table<V> &table = store[factor.table];
    size_t entry = 0;
    for (auto [axis, node] : llvm::enumerate(factor.scope))
      entry = entry * table.dims[axis] + choices[node];
    sum = addCosts(sum, table.values[entry]);
  }
  return sum;
}

template <typename V>
std::vector<Sum> Model<V>::loadOf(const std::vector<uint32_t> &choices) const {
  std::vector<Sum> load(rows.size() + 1, 0);
  for (uint32_t node = 0; node < numNodes(); ++node)
    for (const RowUsage &usage : usages[node]) {
      load[usage.begin] += usage.amounts[choices[node]];
      load[usage.end] -= usage.amounts[choices[node]];
    }
  for (size_t row = 1; row < rows.size(); ++row)
    load[row] += load[row - 1];
  load.resize(rows.size());
  return load;
}

template struct kerf::plan::Model<int64_t>;
template struct kerf::plan::Model<Sum>;
