//===- Feasibility.cpp - is there any legal solution ----------------------===//
//
// Solves the problem with every allowed cost set to zero. Dominance then
// depends on usages alone; a positive Lagrangian bound proves that no legal
// solution exists; the least possible load of single rows shows how much is
// needed.
//
//===----------------------------------------------------------------------===//
#include "Feasibility.h"
#include "Labels.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf::plan;

Problem kerf::plan::withoutCosts(const Problem &problem) {
  Problem result = problem;
  auto clear = [](CostTable &table) {
    for (int64_t &value : table.levels[0])
      value = value >= kForbidden ? kForbidden : 0;
    table.levels[1].clear();
    table.levels[2].clear();
  };
  for (Problem::Node &node : result.nodes)
    clear(node.costs);
  for (CostTable &table : result.tables)
    clear(table);
  return result;
}

namespace {

/// Raises what is known to be needed of each resource.
void noteNeed(SolveResult &result, const Row &row, Sum load) {
  Sum &min = result.minNeeded[row.resource];
  min = std::max(min, row.base + load);
}

} // namespace

/// Computes the least possible load of single rows. The next row is always the
/// one that the last assignment overloads most.
static void boundPeaks(const Problem &free, Dual<int64_t> &dual,
                       SolveResult &result, int budget, const Clock &clock) {
  Model<int64_t> &model = dual.model;
  std::vector<char> tried(model.rows.size(), 0);
  std::vector<Sum> load(model.rows.size(), 0);
  for (; budget > 0 && !clock.expired(); --budget) {
    std::optional<size_t> row;
    for (size_t r = 0; r < model.rows.size(); ++r)
      if (!tried[r] && (!row || load[r] - model.rows[r].limit >
                                    load[*row] - model.rows[*row].limit))
        row = r;
    if (!row)
      return;
    tried[*row] = 1;
    Dual<int64_t>::Point point = dual.minLoad(*row);
    if (point.blocked) {
      result.status = Status::Infeasible;
      return;
    }
    noteNeed(result, model.rows[*row], point.bound);
    if (point.bound > model.rows[*row].limit)
      result.status = Status::Infeasible;
    offer(free, result, model.toOriginal(point.choices));
    load = point.load;
  }
}

SolveResult kerf::plan::findLegal(const Problem &problem,
                                  const SolveOptions &options,
                                  const Clock &clock) {
  Problem free = withoutCosts(problem);
  SolveResult result = emptyResult(problem);
  Model<int64_t> model(free, LevelWeights::of(free), options.effort);
  for (const Row &row : model.everyRow)
    noteNeed(result, row, 0);
  if (model.infeasible) {
    result.status = Status::Infeasible;
    return result;
  }
  pruneDominated(model, 6);
  for (const Row &row : model.everyRow)
    noteNeed(result, row, 0);
  if (model.infeasible) {
    result.status = Status::Infeasible;
    return result;
  }
  EliminationOrder order = EliminationOrder::find(
      model, static_cast<double>(options.maxTableEntries));
  if (!order.fits)
    return result;
  Dual<int64_t> dual(model, order);
  Dual<int64_t>::Point any =
      dual.evaluate(std::vector<Sum>(model.rows.size(), 0));
  if (any.blocked) {
    result.status = Status::Infeasible;
    return result;
  }
  offer(free, result, model.toOriginal(any.choices));
  boundPeaks(free, dual, result, 24, clock);
  if (result.status == Status::Infeasible || result.hasSolution())
    return result;
  Dual<int64_t>::Ascent ascent = dual.ascend(
      80, clock,
      [&](const Dual<int64_t>::Point &point) {
        if (!point.blocked)
          offer(free, result, model.toOriginal(point.choices));
      },
      std::nullopt);
  if (result.hasSolution())
    return result;
  if (ascent.best.bound > 0) {
    result.status = Status::Infeasible;
    return result;
  }
  // A row is added once a solution breaks its limit.
  std::vector<uint32_t> rows;
  for (int tries = 0; tries < 8 && !clock.expired(); ++tries) {
    LabelResult<int64_t> search = searchLabels<int64_t>(
        dual, order, rows, std::vector<Sum>(model.rows.size(), 0), 1,
        size_t(1) << 21, /*beam=*/0, clock);
    result.statistics.branches += search.labels;
    if (!search.complete)
      return result;
    if (!search.choices) {
      result.status = Status::Infeasible;
      return result;
    }
    if (offer(free, result, model.toOriginal(*search.choices)))
      return result;
    std::vector<Sum> load = model.loadOf(*search.choices);
    std::optional<uint32_t> worst;
    for (uint32_t r = 0; r < load.size(); ++r)
      if (load[r] > model.rows[r].limit &&
          (!worst || load[r] - model.rows[r].limit >
                         load[*worst] - model.rows[*worst].limit))
        worst = r;
    if (!worst)
      return result;
    rows.push_back(*worst);
  }
  return result;
}
