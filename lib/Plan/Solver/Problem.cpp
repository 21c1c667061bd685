//===- Problem.cpp - building, checking and evaluating a Problem ----------===//
//
// All that judges a solution: well-formedness, exact cost in 128 bits, the peak
// of each resource by a sweep over interval ends. Shares no code with the
// solvers, so their mistakes are found here.
//
//===----------------------------------------------------------------------===//
#include "kerf/Plan/Problem.h"

#include "kerf/Cost/Integers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cassert>

using namespace kerf::plan;

std::string kerf::plan::toString(Sum value) { return cost::toString(value); }

int kerf::plan::compare(const LevelSums &a, const LevelSums &b) {
  for (unsigned level = 0; level < kNumLevels; ++level)
    if (a[level] != b[level])
      return a[level] < b[level] ? -1 : 1;
  return 0;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

void CostTable::set(size_t i, const Levels &value) {
  levels[0][i] = value[0];
  for (unsigned level = 1; level < kNumLevels; ++level) {
    if (levels[level].empty()) {
      if (value[level] == 0)
        continue;
      levels[level].assign(size(), 0);
    }
    levels[level][i] = value[level];
  }
}

void CostTable::add(size_t i, const Levels &value) {
  if (isForbidden(i))
    return;
  if (value[0] >= kForbidden)
    return forbid(i);
  Levels sum;
  for (unsigned level = 0; level < kNumLevels; ++level)
    // Sums beyond the range end up outside it, for check() to refuse.
    if (__builtin_add_overflow(at(level, i), value[level], &sum[level]))
      sum[level] = value[level] > 0 ? INT64_MAX : INT64_MIN;
  // The sum is forbidden only if the entry already was.
  if (sum[0] >= kForbidden)
    sum[0] = kMaxEntry;
  set(i, sum);
}

uint32_t Problem::addNode(CostTable costs, std::string name) {
  nodes.push_back({std::move(name), std::move(costs)});
  return nodes.size() - 1;
}

uint32_t Problem::addTable(CostTable table) {
  tables.push_back(std::move(table));
  return tables.size() - 1;
}

uint32_t Problem::addEdge(std::vector<uint32_t> nodes, uint32_t table) {
  edges.push_back({std::move(nodes), table});
  return edges.size() - 1;
}

uint32_t Problem::addEdge(std::vector<uint32_t> nodes, CostTable table) {
  uint32_t index = addTable(std::move(table));
  return addEdge(std::move(nodes), index);
}

uint32_t Problem::addResource(std::string name, std::optional<int64_t> limit) {
  resources.push_back({std::move(name), limit, {}});
  return resources.size() - 1;
}

void Problem::addUsage(uint32_t resource, uint32_t node, Interval live,
                       std::vector<int64_t> amounts) {
  resources[resource].usages.push_back({node, live, std::move(amounts)});
}

size_t Problem::entryOf(const Edge &edge,
                        llvm::ArrayRef<uint32_t> choices) const {
  size_t entry = 0;
  for (auto [node, choice] : llvm::zip_equal(edge.nodes, choices))
    entry = entry * numChoices(node) + choice;
  return entry;
}

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

static llvm::Error failure(const llvm::Twine &message) {
  return llvm::createStringError(message);
}

static llvm::Error checkTable(const CostTable &table, const llvm::Twine &what) {
  for (unsigned level = 0; level < kNumLevels; ++level) {
    const std::vector<int64_t> &values = table.levels[level];
    if (level > 0 && values.empty())
      continue;
    if (values.size() != table.size())
      return failure(what + ": level " + llvm::Twine(level) + " has " +
                     llvm::Twine(values.size()) + " entries, expected " +
                     llvm::Twine(table.size()));
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] < -kMaxEntry || (level > 0 && values[i] > kMaxEntry))
        return failure(what + ": entry " + llvm::Twine(i) + " of level " +
                       llvm::Twine(level) + " is " + llvm::Twine(values[i]) +
                       ", expected within +-" + llvm::Twine(kMaxEntry));
  }
  return llvm::Error::success();
}

static std::string nodeName(const Problem &problem, uint32_t node) {
  const std::string &name = problem.nodes[node].name;
  std::string text = "node " + std::to_string(node);
  return name.empty() ? text : text + " (" + name + ")";
}

static llvm::Error checkEdge(const Problem &problem, size_t index) {
  const Problem::Edge &edge = problem.edges[index];
  std::string what = "edge " + std::to_string(index);
  if (edge.nodes.size() < 2)
    return failure(what + " has " + llvm::Twine(edge.nodes.size()) +
                   " nodes, expected at least 2");
  if (edge.table >= problem.tables.size())
    return failure(what + " has table " + llvm::Twine(edge.table) +
                   ", expected below " + llvm::Twine(problem.tables.size()));
  Sum size = 1;
  for (size_t i = 0; i < edge.nodes.size(); ++i) {
    uint32_t node = edge.nodes[i];
    if (node >= problem.nodes.size())
      return failure(what + " has node " + llvm::Twine(node) +
                     ", expected below " + llvm::Twine(problem.nodes.size()));
    if (llvm::is_contained(llvm::ArrayRef(edge.nodes).take_front(i), node))
      return failure(what + " has " + nodeName(problem, node) + " twice");
    // The table's size is below 2^63, so a larger product ends the loop.
    size *= static_cast<Sum>(problem.numChoices(node));
    if (size > INT64_MAX)
      break;
  }
  size_t entries = problem.tables[edge.table].size();
  if (size != static_cast<Sum>(entries))
    return failure(what + " has " + llvm::Twine(entries) + " costs, expected " +
                   toString(size));
  return llvm::Error::success();
}

static llvm::Error checkResource(const Problem &problem,
                                 const Problem::Resource &resource) {
  std::string what = "resource \"" + resource.name + "\"";
  if (resource.limit && (*resource.limit < 0 || *resource.limit > kMaxEntry))
    return failure(what + ": limit is " + llvm::Twine(*resource.limit) +
                   ", expected 0 to " + llvm::Twine(kMaxEntry));
  for (const Problem::Usage &usage : resource.usages) {
    if (usage.node >= problem.nodes.size())
      return failure(what + ": usage of node " + llvm::Twine(usage.node) +
                     ", expected below " + llvm::Twine(problem.nodes.size()));
    std::string where = what + ", " + nodeName(problem, usage.node);
    if (usage.amounts.size() != problem.numChoices(usage.node))
      return failure(where + ": " + llvm::Twine(usage.amounts.size()) +
                     " usages, expected " +
                     llvm::Twine(problem.numChoices(usage.node)));
    for (int64_t amount : usage.amounts)
      if (amount < 0 || amount > kMaxEntry)
        return failure(where + ": usage is " + llvm::Twine(amount) +
                       ", expected 0 to " + llvm::Twine(kMaxEntry));
  }
  return llvm::Error::success();
}

llvm::Error Problem::check() const {
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].costs.size() == 0)
      return failure(nodeName(*this, node) + " has no choices");
    if (llvm::Error error =
            checkTable(nodes[node].costs, nodeName(*this, node)))
      return error;
  }
  for (size_t table = 0; table < tables.size(); ++table)
    if (llvm::Error error =
            checkTable(tables[table], "table " + llvm::Twine(table)))
      return error;
  for (size_t edge = 0; edge < edges.size(); ++edge)
    if (llvm::Error error = checkEdge(*this, edge))
      return error;
  for (const Resource &resource : resources)
    if (llvm::Error error = checkResource(*this, resource))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Evaluating
//===----------------------------------------------------------------------===//

static Evaluation::Peak peakOf(const Problem::Resource &resource,
                               const Solution &solution) {
  std::vector<std::pair<int64_t, Sum>> events;
  for (const Problem::Usage &usage : resource.usages) {
    int64_t amount = usage.amounts[solution[usage.node]];
    if (usage.live.empty() || amount == 0)
      continue;
    events.push_back({usage.live.begin, amount});
    events.push_back({usage.live.end, -Sum(amount)});
  }
  // At one instant what ends goes before what begins: intervals are half-open.
  llvm::sort(events);
  Evaluation::Peak peak;
  Sum current = 0;
  for (auto &[time, change] : events) {
    current += change;
    if (current > peak.amount)
      peak = {current, time};
  }
  return peak;
}

Evaluation kerf::plan::evaluate(const Problem &problem,
                                const Solution &solution) {
  assert(solution.size() == problem.nodes.size());
  Evaluation result;
  auto addEntry = [&](const CostTable &table, size_t entry) {
    if (table.isForbidden(entry)) {
      ++result.forbidden;
      return;
    }
    for (unsigned level = 0; level < kNumLevels; ++level)
      result.cost[level] += table.at(level, entry);
  };
  for (auto [node, choice] : llvm::zip_equal(problem.nodes, solution))
    addEntry(node.costs, choice);
  for (const Problem::Edge &edge : problem.edges) {
    size_t entry = 0;
    for (uint32_t node : edge.nodes)
      entry = entry * problem.numChoices(node) + solution[node];
    addEntry(problem.tables[edge.table], entry);
  }
  for (auto [index, resource] : llvm::enumerate(problem.resources)) {
    result.peaks.push_back(peakOf(resource, solution));
    if (resource.limit && result.peaks.back().amount > *resource.limit)
      result.overcommitted.push_back(index);
  }
  return result;
}

llvm::Expected<Evaluation> kerf::plan::verify(const Problem &problem,
                                              const Solution &solution) {
  if (solution.size() != problem.nodes.size())
    return failure("solution has " + llvm::Twine(solution.size()) +
                   " entries, expected " + llvm::Twine(problem.nodes.size()));
  for (uint32_t node = 0; node < solution.size(); ++node) {
    if (solution[node] >= problem.numChoices(node))
      return failure(nodeName(problem, node) + " takes choice " +
                     llvm::Twine(solution[node]) + ", expected below " +
                     llvm::Twine(problem.numChoices(node)));
    if (problem.nodes[node].costs.isForbidden(solution[node]))
      return failure(nodeName(problem, node) + " takes choice " +
                     llvm::Twine(solution[node]) + ", which is not allowed");
  }
  Evaluation result = evaluate(problem, solution);
  if (result.forbidden > 0)
    for (size_t index = 0; index < problem.edges.size(); ++index) {
      const Problem::Edge &edge = problem.edges[index];
      std::vector<uint32_t> choices;
      std::string names;
      for (uint32_t node : edge.nodes) {
        choices.push_back(solution[node]);
        names += (names.empty() ? "" : ", ") + nodeName(problem, node) + " = " +
                 std::to_string(solution[node]);
      }
      if (problem.tables[edge.table].isForbidden(
              problem.entryOf(edge, choices)))
        return failure("edge " + llvm::Twine(index) + " does not allow " +
                       names);
    }
  if (!result.overcommitted.empty()) {
    uint32_t index = result.overcommitted.front();
    const Problem::Resource &resource = problem.resources[index];
    return failure("resource \"" + resource.name + "\": peak is " +
                   toString(result.peaks[index].amount) + " at time " +
                   llvm::Twine(result.peaks[index].time) + ", over the limit " +
                   llvm::Twine(*resource.limit));
  }
  return result;
}
