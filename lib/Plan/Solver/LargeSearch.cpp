//===- LargeSearch.cpp - problems too wide for elimination ----------------===//
//
// See LargeSearch.h. Extracting a region costs O(its tables + segments of the
// resources), solving it what solve() costs; nothing else depends on the size
// of the whole problem.
//
//===----------------------------------------------------------------------===//
#include "LargeSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace kerf::plan;

static constexpr uint32_t kOutside = UINT32_MAX;

Landscape::Landscape(const Problem &problem, Solution start, Effort *effort)
    : effort(effort), problem(problem), current(std::move(start)) {
  size_t numNodes = problem.nodes.size();
  edgesOf.resize(numNodes);
  usesOf.resize(numNodes);
  localOf.assign(numNodes, kOutside);
  for (auto [index, edge] : llvm::enumerate(problem.edges))
    for (uint32_t node : edge.nodes)
      edgesOf[node].push_back(index);
  for (auto [r, resource] : llvm::enumerate(problem.resources)) {
    std::vector<int64_t> &time = times.emplace_back();
    loads.emplace_back();
    if (!resource.limit)
      continue;
    for (const Problem::Usage &usage : resource.usages)
      if (!usage.live.empty()) {
        time.push_back(usage.live.begin);
        time.push_back(usage.live.end);
      }
    llvm::sort(time);
    time.erase(llvm::unique(time), time.end());
    loads.back().assign(time.size(), 0);
    auto place = [&](int64_t at) -> size_t {
      return llvm::lower_bound(time, at) - time.begin();
    };
    for (auto [u, usage] : llvm::enumerate(resource.usages))
      if (!usage.live.empty())
        usesOf[usage.node].push_back({uint32_t(r), uint32_t(u),
                                      place(usage.live.begin),
                                      place(usage.live.end)});
  }
  for (uint32_t node = 0; node < numNodes; ++node)
    addLoad(node, 1);
  // A conflict costs more than any two entries of a table differ, and still
  // fits an entry.
  penalty = 1;
  auto widen = [&](const CostTable &table) {
    for (size_t i = 0; i < table.size(); ++i)
      if (!table.isForbidden(i))
        penalty = std::max(penalty, std::abs(table.levels[0][i]));
  };
  for (const Problem::Node &node : problem.nodes)
    widen(node.costs);
  for (const CostTable &table : problem.tables)
    widen(table);
  penalty = std::min(penalty, kMaxEntry / 4) * 4;
}

void Landscape::addLoad(uint32_t node, int64_t sign) {
  for (const Use &use : usesOf[node]) {
    Sum amount = problem.resources[use.resource]
                     .usages[use.usage]
                     .amounts[current[node]];
    for (size_t s = use.begin; amount != 0 && s < use.end; ++s)
      loads[use.resource][s] += sign * amount;
  }
}

static size_t entryIn(const Problem &problem, const Problem::Edge &edge,
                      const Solution &solution) {
  size_t entry = 0;
  for (uint32_t node : edge.nodes)
    entry = entry * problem.numChoices(node) + solution[node];
  return entry;
}

std::vector<uint32_t> Landscape::nodesInConflict() const {
  std::vector<uint32_t> nodes;
  for (uint32_t node = 0; node < current.size(); ++node)
    if (problem.nodes[node].costs.isForbidden(current[node]))
      nodes.push_back(node);
  for (const Problem::Edge &edge : problem.edges)
    if (problem.tables[edge.table].isForbidden(entryIn(problem, edge, current)))
      nodes.insert(nodes.end(), edge.nodes.begin(), edge.nodes.end());
  for (uint32_t node = 0; node < current.size(); ++node)
    for (const Use &use : usesOf[node]) {
      const std::vector<int64_t> &amounts =
          problem.resources[use.resource].usages[use.usage].amounts;
      if (amounts[current[node]] > *llvm::min_element(amounts) &&
          overloaded(use))
        nodes.push_back(node);
    }
  llvm::sort(nodes);
  nodes.erase(llvm::unique(nodes), nodes.end());
  return nodes;
}

bool Landscape::overloaded(const Use &use) const {
  Sum limit = *problem.resources[use.resource].limit;
  const std::vector<Sum> &load = loads[use.resource];
  return std::any_of(load.begin() + use.begin, load.begin() + use.end,
                     [&](Sum value) { return value > limit; });
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

/// Which nodes of a small graph to drop so that greedy elimination of the rest
/// never meets a table over the limit.
static std::vector<char> dropWide(std::vector<std::set<uint32_t>> graph,
                                  const std::vector<double> &sizes,
                                  double limit, Random &random) {
  std::vector<char> dropped(graph.size(), 0), done(graph.size(), 0);
  auto weightOf = [&](uint32_t node) {
    double weight = sizes[node];
    for (uint32_t other : graph[node])
      weight *= sizes[other];
    return weight;
  };
  using Key = std::pair<double, uint32_t>;
  std::set<Key> queue;
  std::vector<double> weights(graph.size());
  for (uint32_t node = 0; node < graph.size(); ++node) {
    weights[node] = weightOf(node);
    queue.insert({weights[node], node});
  }
  auto refresh = [&](uint32_t node) {
    queue.erase({weights[node], node});
    weights[node] = weightOf(node);
    queue.insert({weights[node], node});
  };
  while (!queue.empty()) {
    auto [weight, node] = *queue.begin();
    if (weight > limit) {
      // Drop one of the nodes involved, drawn in proportion to choices times
      // degree. The draw is random so that different regions fix different
      // nodes. The first node, the seed of the region, is never dropped.
      double best = -1;
      uint32_t drawn = node;
      auto consider = [&](uint32_t other) {
        double load = sizes[other] * double(graph[other].size());
        double score = random.unit();
        // The largest of u^(1/load) is drawn in proportion to load.
        score = std::pow(score, 1 / std::max(load, 1e-9));
        if (other != 0 && score > best) {
          best = score;
          drawn = other;
        }
      };
      consider(node);
      for (uint32_t other : graph[node])
        consider(other);
      node = drawn;
      dropped[node] = 1;
    }
    queue.erase({weights[node], node});
    done[node] = 1;
    std::vector<uint32_t> around(graph[node].begin(), graph[node].end());
    for (uint32_t other : around) {
      graph[other].erase(node);
      if (!dropped[node])
        for (uint32_t third : around)
          if (third != other)
            graph[other].insert(third);
    }
    for (uint32_t other : around)
      refresh(other);
  }
  return dropped;
}

std::vector<uint32_t> Landscape::region(uint32_t seed, size_t size,
                                        double maxTableEntries,
                                        Random &random) const {
  // Breadth first, neighbours in random order, so regions differ in shape.
  std::vector<uint32_t> nodes = {seed};
  localOf[seed] = 0;
  for (size_t at = 0; at < nodes.size() && nodes.size() < size; ++at) {
    std::vector<uint32_t> edges = edgesOf[nodes[at]];
    for (size_t i = edges.size(); i > 1; --i)
      std::swap(edges[i - 1], edges[random.below(i)]);
    for (uint32_t edge : edges)
      for (uint32_t other : problem.edges[edge].nodes)
        if (localOf[other] == kOutside && nodes.size() < size &&
            problem.numChoices(other) > 1) {
          localOf[other] = nodes.size();
          nodes.push_back(other);
        }
  }
  countWork(effort, WorkPiece::Pair, 4 * static_cast<double>(nodes.size()));
  std::vector<std::set<uint32_t>> graph(nodes.size());
  std::vector<double> sizes;
  for (uint32_t node : nodes) {
    sizes.push_back(problem.numChoices(node));
    for (uint32_t edge : edgesOf[node])
      for (uint32_t other : problem.edges[edge].nodes)
        if (other != node && localOf[other] != kOutside)
          graph[localOf[node]].insert(localOf[other]);
  }
  std::vector<char> dropped =
      dropWide(std::move(graph), sizes, maxTableEntries, random);
  std::vector<uint32_t> kept;
  for (auto [local, node] : llvm::enumerate(nodes)) {
    localOf[node] = kOutside;
    if (!dropped[local])
      kept.push_back(node);
  }
  llvm::sort(kept);
  return kept;
}

//===----------------------------------------------------------------------===//
// Cutting out and putting back
//===----------------------------------------------------------------------===//

Problem Landscape::extract(const std::vector<uint32_t> &region,
                           bool soft) const {
  Problem sub;
  for (auto [local, node] : llvm::enumerate(region))
    localOf[node] = local;
  auto levelsAt = [&](const CostTable &table, size_t i) -> Levels {
    if (soft && table.isForbidden(i))
      return {penalty, 0, 0};
    return {table.at(0, i), table.at(1, i), table.at(2, i)};
  };
  std::vector<uint32_t> edges;
  for (uint32_t node : region) {
    const CostTable &costs = problem.nodes[node].costs;
    CostTable table = CostTable::zeros(costs.size());
    for (size_t c = 0; c < costs.size(); ++c)
      table.set(c, levelsAt(costs, c));
    for (const Use &use : usesOf[node])
      if (soft && overloaded(use))
        for (size_t c = 0; c < costs.size(); ++c) {
          double price =
              overloadPrice *
              double(
                  problem.resources[use.resource].usages[use.usage].amounts[c]);
          table.add(c, {int64_t(std::min(price, 1e16)), 0, 0});
        }
    sub.addNode(std::move(table));
    edges.insert(edges.end(), edgesOf[node].begin(), edgesOf[node].end());
  }
  llvm::sort(edges);
  edges.erase(llvm::unique(edges), edges.end());
  for (uint32_t index : edges) {
    const Problem::Edge &edge = problem.edges[index];
    const CostTable &table = problem.tables[edge.table];
    countWork(effort, WorkPiece::Entry, static_cast<double>(table.size()));
    // Walk the axes of the region's nodes in order; the other nodes keep their
    // current choice.
    llvm::SmallVector<uint32_t, 3> free;
    llvm::SmallVector<size_t, 3> strides;
    size_t base = 0, stride = 1;
    for (size_t i = edge.nodes.size(); i-- > 0;) {
      uint32_t node = edge.nodes[i];
      if (localOf[node] == kOutside) {
        base += current[node] * stride;
      } else {
        free.insert(free.begin(), node);
        strides.insert(strides.begin(), stride);
      }
      stride *= problem.numChoices(node);
    }
    auto placed = [&](CostTable slice) {
      if (free.size() == 1) {
        CostTable &own = sub.nodes[localOf[free[0]]].costs;
        for (size_t i = 0; i < slice.size(); ++i)
          own.add(i, {slice.at(0, i), slice.at(1, i), slice.at(2, i)});
        return;
      }
      std::vector<uint32_t> ends;
      for (uint32_t node : free)
        ends.push_back(localOf[node]);
      sub.addEdge(std::move(ends), std::move(slice));
    };
    // The rows of a slice are contiguous or strided runs of the table.
    CostTable slice;
    for (unsigned level = 0; level < kNumLevels; ++level) {
      const std::vector<int64_t> &from = table.levels[level];
      std::vector<int64_t> &to = slice.levels[level];
      if (from.empty())
        continue;
      if (free.size() == edge.nodes.size()) {
        to = from;
        continue;
      }
      size_t entries = 1;
      for (uint32_t node : free)
        entries *= problem.numChoices(node);
      to.reserve(entries);
      size_t inner = problem.numChoices(free.back());
      llvm::SmallVector<uint32_t, 3> digit(free.size() - 1, 0);
      while (to.size() < entries) {
        size_t entry = base;
        for (size_t axis = 0; axis < digit.size(); ++axis)
          entry += digit[axis] * strides[axis];
        for (size_t i = 0; i < inner; ++i)
          to.push_back(from[entry + i * strides.back()]);
        for (size_t axis = digit.size(); axis-- > 0;) {
          if (++digit[axis] < problem.numChoices(free[axis]))
            break;
          digit[axis] = 0;
        }
      }
    }
    if (soft)
      for (size_t i = 0; i < slice.size(); ++i)
        if (slice.isForbidden(i))
          slice.set(i, {penalty, 0, 0});
    placed(std::move(slice));
  }
  addFixedLoad(sub, region);
  for (uint32_t node : region)
    localOf[node] = kOutside;
  return sub;
}

void Landscape::addFixedLoad(Problem &sub,
                             const std::vector<uint32_t> &region) const {
  uint32_t outside = sub.addNode(CostTable({0}), "outside");
  for (size_t r = 0; r < problem.resources.size(); ++r) {
    const Problem::Resource &resource = problem.resources[r];
    if (!resource.limit)
      continue;
    uint32_t id = sub.addResource(resource.name, resource.limit);
    countWork(effort, WorkPiece::Visit,
              static_cast<double>(loads[r].size() + region.size()));
    // The current load of the region itself, as differences along the segments.
    std::vector<size_t> marks;
    std::vector<std::pair<size_t, Sum>> changes;
    for (auto [local, node] : llvm::enumerate(region))
      for (const Use &use : usesOf[node]) {
        if (use.resource != r)
          continue;
        const Problem::Usage &usage = resource.usages[use.usage];
        if (llvm::all_of(usage.amounts,
                         [&](int64_t a) { return a == usage.amounts[0]; }))
          continue; // fixed in this region
        sub.addUsage(id, local, {int64_t(use.begin), int64_t(use.end)},
                     usage.amounts);
        marks.push_back(use.begin);
        marks.push_back(use.end);
        changes.push_back({use.begin, usage.amounts[current[node]]});
        changes.push_back({use.end, -Sum(usage.amounts[current[node]])});
      }
    llvm::sort(marks);
    marks.erase(llvm::unique(marks), marks.end());
    llvm::sort(changes);
    // Between two marks only the fullest segment matters.
    Sum held = 0;
    size_t change = 0;
    for (size_t i = 0; i + 1 < marks.size(); ++i) {
      for (; change < changes.size() && changes[change].first <= marks[i];
           ++change)
        held += changes[change].second;
      Sum max = 0;
      for (size_t s = marks[i]; s < marks[i + 1]; ++s)
        max = std::max(max, loads[r][s]);
      // In a segment over its limit the region may not add load.
      Sum fixed = std::min<Sum>(max - held, *resource.limit - held);
      if (fixed > 0)
        sub.addUsage(id, outside, {int64_t(marks[i]), int64_t(marks[i + 1])},
                     {static_cast<int64_t>(fixed)});
    }
  }
}

double Landscape::improve(const std::vector<uint32_t> &region, bool soft,
                          double seconds, uint64_t &moves) {
  if (region.empty())
    return 0;
  Problem sub = extract(region, soft);
  SolveOptions options;
  options.deadlineSeconds = seconds;
  options.effort = effort;
  for (uint32_t node : region)
    options.hint.push_back(current[node]);
  options.hint.push_back(0);
  Evaluation before = evaluate(sub, options.hint);
  SolveResult result = solveNarrow(sub, options);
  if (!result.hasSolution() ||
      (before.legal() && compare(result.evaluation.cost, before.cost) >= 0))
    return 0;
  moves += apply(region, result.solution);
  return std::max(1e-3, double(before.cost[0] - result.cost()));
}

uint64_t Landscape::apply(const std::vector<uint32_t> &region,
                          const Solution &local) {
  uint64_t moves = 0;
  for (auto [index, node] : llvm::enumerate(region)) {
    if (current[node] == local[index])
      continue;
    addLoad(node, -1);
    current[node] = local[index];
    addLoad(node, 1);
    ++moves;
  }
  return moves;
}

void Landscape::shake(const std::vector<uint32_t> &region, Random &random,
                      double seconds) {
  Problem sub = extract(region, /*soft=*/false);
  // The noise is as large as the region's mean cost per node; the current
  // choices get that much on top, so that the search moves away from them.
  Solution hint;
  for (uint32_t node : region)
    hint.push_back(current[node]);
  hint.push_back(0);
  Sum cost = evaluate(sub, hint).cost[0];
  auto mean = int64_t(std::min<Sum>(
      (cost < 0 ? -cost : cost) / Sum(region.size()) + 1, kMaxEntry / 64));
  for (size_t local = 0; local < region.size(); ++local)
    for (size_t c = 0; c < sub.numChoices(local); ++c)
      sub.nodes[local].costs.add(c, {int64_t(random.below(uint64_t(mean))) +
                                         (c == hint[local] ? mean : 0),
                                     0, 0});
  SolveOptions options;
  options.deadlineSeconds = seconds;
  options.effort = effort;
  options.hint = hint;
  SolveResult result = solveNarrow(sub, options);
  if (result.hasSolution())
    apply(region, result.solution);
}

void Landscape::moveTo(const Solution &solution) {
  for (uint32_t node = 0; node < current.size(); ++node) {
    if (current[node] == solution[node])
      continue;
    addLoad(node, -1);
    current[node] = solution[node];
    addLoad(node, 1);
  }
}

Solution kerf::plan::minUsage(const Problem &problem) {
  // By the sum of usages relative to the limits; among equals the cheaper
  // choice.
  std::vector<std::vector<double>> usage(problem.nodes.size());
  for (const Problem::Resource &resource : problem.resources) {
    if (!resource.limit)
      continue;
    for (const Problem::Usage &use : resource.usages) {
      if (use.live.empty())
        continue;
      std::vector<double> &sum = usage[use.node];
      sum.resize(use.amounts.size(), 0);
      for (size_t c = 0; c < use.amounts.size(); ++c)
        sum[c] += double(use.amounts[c]) /
                  double(std::max<int64_t>(*resource.limit, 1));
    }
  }
  Solution solution;
  for (uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const CostTable &costs = problem.nodes[node].costs;
    uint32_t best = 0;
    auto keyOf = [&](uint32_t c) {
      return std::tuple(costs.isForbidden(c),
                        usage[node].empty() ? 0.0 : usage[node][c],
                        costs.at(0, c));
    };
    for (uint32_t c = 1; c < costs.size(); ++c)
      if (keyOf(c) < keyOf(best))
        best = c;
    solution.push_back(best);
  }
  return solution;
}
