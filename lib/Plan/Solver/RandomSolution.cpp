//===- RandomSolution.cpp - any legal solution ----------------------------===//
//
// Elimination of the problem without costs tells, backwards along the order,
// which choices of a node some completion allows: drawing among those never
// reaches a dead end. If a draw breaks a limit, nodes get random costs plus a
// price on usage, which is raised until the limits are kept. The draw stays
// random where the price does not bind.
//
//===----------------------------------------------------------------------===//
#include "Feasibility.h"
#include "Lagrange.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace kerf::plan;

using Draw = Model<int64_t>;

/// One random cost per choice, so that the cheapest solution is a random one.
static std::vector<TableId> randomCosts(Draw &model, Random &random,
                                        int64_t range) {
  std::vector<TableId> unary;
  for (uint32_t node = 0; node < model.numNodes(); ++node) {
    Table<int64_t> table = model.store[model.unary[node]];
    for (int64_t &value : table.values)
      value = addCosts<int64_t>(value, random.below(range));
    unary.push_back(model.store.intern(std::move(table)));
  }
  return unary;
}

/// Draws node by node in reverse elimination order.
static std::optional<std::vector<uint32_t>>
drawAllowed(Draw &model, const EliminationOrder &order, Random &random) {
  size_t mark = model.store.size();
  Elimination<int64_t> elimination(model, order);
  std::optional<std::vector<uint32_t>> choices;
  if (!blocked(elimination.run(model.unary)))
    choices = elimination.backtrack([&](const std::vector<int64_t> &row) {
      std::vector<uint32_t> allowed;
      for (uint32_t c = 0; c < row.size(); ++c)
        if (!blocked(row[c]))
          allowed.push_back(c);
      return allowed[random.below(allowed.size())];
    });
  model.store.truncate(mark);
  return choices;
}

SolveResult kerf::plan::randomSolution(const Problem &problem, uint64_t seed) {
  Clock clock{SolveOptions()};
  Problem free = withoutCosts(problem);
  SolveResult result = emptyResult(problem);
  Random random(seed ^ 0x6b657266);
  auto finish = [&](llvm::StringRef why) {
    result.statistics.stoppedBy = why.str();
    result.statistics.seconds = clock.wallSeconds();
    if (result.hasSolution()) {
      result.evaluation = evaluate(problem, result.solution);
      result.status = Status::Feasible;
    }
    result.lowerBound = result.hasSolution() ? -infinity<Sum>() : 0;
    return result;
  };
  Draw model(free, LevelWeights::of(free));
  if (model.infeasible) {
    result.status = Status::Infeasible;
    return finish("no choice left");
  }
  EliminationOrder order =
      EliminationOrder::find(model, double(int64_t(1) << 22));
  if (!order.fits)
    return finish("table too large");
  for (int draw = 0; draw < 4; ++draw) {
    std::optional<std::vector<uint32_t>> choices =
        drawAllowed(model, order, random);
    if (!choices) {
      result.status = Status::Infeasible;
      return finish("elimination");
    }
    if (offer(free, result, model.toOriginal(*choices)))
      return finish("drawn");
  }
  // Random costs, and prices that rise where the load is too high.
  std::vector<TableId> plain = model.unary;
  for (int attempt = 0; attempt < 3; ++attempt) {
    constexpr int64_t kRange = 1 << 20;
    model.unary = randomCosts(model, random, kRange);
    {
      Dual<int64_t> dual(model, order);
      std::vector<Sum> prices(model.rows.size(), 0);
      for (int round = 0; round < 60 && !result.hasSolution(); ++round) {
        Dual<int64_t>::Point point = dual.evaluate(prices);
        offer(free, result, model.toOriginal(point.choices));
        for (size_t row = 0; row < prices.size(); ++row)
          if (point.load[row] > model.rows[row].limit) {
            double unit = std::ldexp(double(kRange), priceShift<int64_t>()) /
                          double(std::max<Sum>(model.rows[row].limit, 1));
            prices[row] = prices[row] * 3 / 2 + Sum(unit / 8) + 1;
          }
        dual.limitPrices(prices);
      }
    }
    model.unary = plain;
    if (result.hasSolution())
      return finish("priced draw");
  }
  SolveOptions options;
  SolveResult legal = findLegal(problem, options, clock);
  result.minNeeded = legal.minNeeded;
  result.status = legal.status;
  result.solution = legal.solution;
  return finish("search for a legal solution");
}
