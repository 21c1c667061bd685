//===- Lagrange.cpp - prices on limits ------------------------------------===//
//
// L is concave and piecewise linear in each price: the assignment found at one
// price is a line. The next price to try is where a rising line (whose load is
// over the limit) and a falling line cross; if no assignment lies below the
// crossing, it is the maximum along that price.
//
//===----------------------------------------------------------------------===//
#include "Lagrange.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf::plan;

static Sum floorShift(Sum value, unsigned bits) { return value >> bits; }
static Sum ceilShift(Sum value, unsigned bits) { return -((-value) >> bits); }

template <typename V>
static std::vector<Sum> prefixSums(const std::vector<Sum> &prices) {
  std::vector<Sum> prefix(prices.size() + 1, 0);
  for (size_t row = 0; row < prices.size(); ++row)
    prefix[row + 1] = prefix[row] + prices[row];
  return prefix;
}

/// The penalties of one solution stay far below infinity.
template <typename V>
void kerf::plan::limitPrices(const Model<V> &model, std::vector<Sum> &prices) {
  std::vector<Sum> prefix = prefixSums<V>(prices);
  double worst = 0;
  for (uint32_t node = 0; node < model.numNodes(); ++node)
    for (const RowUsage &usage : model.usages[node])
      worst += static_cast<double>(prefix[usage.end] - prefix[usage.begin]) *
               static_cast<double>(*llvm::max_element(usage.amounts));
  for (size_t row = 0; row < prices.size(); ++row)
    worst += static_cast<double>(prices[row]) *
             static_cast<double>(model.rows[row].limit);
  double max =
      std::ldexp(static_cast<double>(infinity<V>()) / 16, priceShift<V>());
  if (worst <= max)
    return;
  for (Sum &price : prices)
    price = static_cast<Sum>(static_cast<double>(price) * (max / worst) / 2);
}

template <typename V>
Penalties<V> kerf::plan::penaltiesAt(const Model<V> &model,
                                     const std::vector<Sum> &prices) {
  std::vector<Sum> prefix = prefixSums<V>(prices);
  Penalties<V> result;
  result.ofNode.resize(model.numNodes());
  model.count(WorkPiece::Visit, static_cast<double>(model.numNodes()));
  for (uint32_t node = 0; node < model.numNodes(); ++node)
    for (const RowUsage &usage : model.usages[node]) {
      Sum price = prefix[usage.end] - prefix[usage.begin];
      if (price == 0)
        continue;
      model.countEntries(2 * usage.amounts.size());
      std::vector<V> &own = result.ofNode[node];
      own.resize(usage.amounts.size(), 0);
      for (size_t c = 0; c < usage.amounts.size(); ++c)
        own[c] = addCosts<V>(own[c],
                             static_cast<V>(floorShift(price * usage.amounts[c],
                                                       priceShift<V>())));
    }
  Sum total = 0;
  for (size_t row = 0; row < prices.size(); ++row)
    total += prices[row] * model.rows[row].limit;
  result.constant = static_cast<V>(ceilShift(total, priceShift<V>()));
  return result;
}

template <typename V>
std::vector<TableId> Dual<V>::penalised(const Prices &prices, V &constant) {
  Penalties<V> penalties = penaltiesAt(model, prices);
  constant = penalties.constant;
  std::vector<TableId> unary = model.unary;
  for (uint32_t node = 0; node < model.numNodes(); ++node) {
    const std::vector<V> &own = penalties.ofNode[node];
    if (own.empty())
      continue;
    Table<V> table = model.store[unary[node]];
    for (size_t c = 0; c < own.size(); ++c)
      table.values[c] = addCosts<V>(table.values[c], own[c]);
    unary[node] = model.store.intern(std::move(table));
  }
  return unary;
}

template <typename V>
typename Dual<V>::Point Dual<V>::evaluate(const Prices &prices) {
  ++rounds;
  model.store.truncate(mark);
  std::vector<TableId> unary = penalised(prices, lastConstant);
  Point point;
  V value = elimination.run(unary);
  if (blocked(value)) {
    point.blocked = true;
    return point;
  }
  model.count(WorkPiece::Visit,
              static_cast<double>(2 * model.numNodes() + model.factors.size()));
  point.bound = value - lastConstant;
  point.choices = elimination.backtrack();
  point.cost = model.costOf(point.choices);
  point.load = model.loadOf(point.choices);
  point.legal = true;
  for (size_t row = 0; row < model.rows.size(); ++row)
    point.legal &= point.load[row] <= model.rows[row].limit;
  return point;
}

template <typename V> typename Dual<V>::Point Dual<V>::minLoad(size_t row) {
  ++rounds;
  model.store.truncate(mark);
  std::vector<TableId> unary = model.unary;
  for (uint32_t node = 0; node < model.numNodes(); ++node)
    for (const RowUsage &usage : model.usages[node])
      if (usage.begin <= row && row < usage.end) {
        Table<V> table = model.store[unary[node]];
        for (size_t c = 0; c < usage.amounts.size(); ++c)
          table.values[c] =
              addCosts<V>(table.values[c], static_cast<V>(usage.amounts[c]));
        unary[node] = model.store.intern(std::move(table));
      }
  Point point;
  point.bound = elimination.run(unary);
  point.blocked = blocked(point.bound);
  if (point.blocked)
    return point;
  point.choices = elimination.backtrack();
  point.load = model.loadOf(point.choices);
  point.legal = true;
  for (size_t r = 0; r < model.rows.size(); ++r)
    point.legal &= point.load[r] <= model.rows[r].limit;
  return point;
}

template <typename V>
typename Dual<V>::Point
Dual<V>::lineSearch(Prices &prices, size_t row, const Point &start, int &budget,
                    const Clock &clock,
                    llvm::function_ref<void(const Point &)> seen) {
  // value(p) = base + p * slope, the lines through the values at price 0 of
  // this row. Doubles suffice, since lines only choose the next price.
  struct Line {
    double price, base, slope;
  };
  double unit = std::ldexp(1.0, -static_cast<int>(priceShift<V>()));
  auto limit = static_cast<double>(model.rows[row].limit);
  auto lineOf = [&](const Point &point, Sum price) {
    double p = static_cast<double>(price) * unit;
    double slope = static_cast<double>(point.load[row]) - limit;
    return Line{p, static_cast<double>(point.bound) - p * slope, slope};
  };
  Point best = start;
  Sum bestPrice = prices[row];
  Line current = lineOf(start, prices[row]);
  std::optional<Line> rising, falling;
  (current.slope > 0 ? rising : falling) = current;
  // Whether a price was so high that sums of it are too large to count, and
  // look forbidden.
  bool isTooHigh = false;
  // False: the price is known, or too high.
  auto probe = [&](double price) {
    Sum old = prices[row];
    prices[row] = static_cast<Sum>(std::max(0.0, price) / unit);
    bool same = prices[row] == old;
    limitPrices(prices);
    Point point = evaluate(prices);
    --budget;
    if (point.blocked) {
      isTooHigh = true;
      prices[row] = old;
      return false;
    }
    seen(point);
    if (point.bound > best.bound) {
      best = point;
      bestPrice = prices[row];
    }
    Line line = lineOf(point, prices[row]);
    (line.slope > 0 ? rising : falling) = line;
    return !same;
  };
  // Bracket: go up until the load is within the limit, or down to zero.
  double step = std::max(
      std::abs(static_cast<double>(start.cost)) / std::max(limit, 1.0), unit);
  if (rising && rising->price > 0)
    step = rising->price;
  for (int i = 0;
       i < 40 && !falling && !isTooHigh && budget > 0 && !clock.expired();
       ++i) {
    probe(rising->price + step);
    step *= 4;
  }
  if (!rising && budget > 0)
    probe(0);
  while (rising && falling && budget > 0 && !clock.expired()) {
    double crossing =
        (falling->base - rising->base) / (rising->slope - falling->slope);
    if (!(crossing > rising->price && crossing < falling->price))
      break;
    double promise = rising->base + crossing * rising->slope;
    double before = static_cast<double>(best.bound);
    if (promise <= before + std::max(0.5, 1e-9 * std::abs(before)))
      break;
    if (!probe(crossing))
      break;
  }
  prices[row] = bestPrice;
  return best;
}

template <typename V>
typename Dual<V>::Ascent
Dual<V>::ascend(int budget, const Clock &clock,
                llvm::function_ref<void(const Point &)> seen,
                std::optional<V> upperBound) {
  Ascent ascent;
  ascent.prices.assign(model.rows.size(), 0);
  Point point = evaluate(ascent.prices);
  --budget;
  seen(point);
  ascent.best = point;
  if (point.blocked || point.legal)
    return ascent;
  auto maxViolated = [&](const Point &at) -> std::optional<size_t> {
    std::optional<size_t> worst;
    for (size_t row = 0; row < model.rows.size(); ++row)
      if (at.load[row] > model.rows[row].limit &&
          (!worst || at.load[row] - model.rows[row].limit >
                         at.load[*worst] - model.rows[*worst].limit))
        worst = row;
    return worst;
  };
  // Line searches row by row, as long as they raise the bound.
  Prices prices = ascent.prices;
  for (int pass = 0; pass < 12 && budget > 0 && !clock.expired(); ++pass) {
    std::optional<size_t> row = maxViolated(point);
    if (!row)
      break;
    V before = ascent.best.bound;
    point = lineSearch(prices, *row, point, budget, clock, seen);
    if (point.bound > ascent.best.bound) {
      ascent.best = point;
      ascent.prices = prices;
    }
    if (ascent.best.bound <= before)
      break;
  }
  // Subgradients with Polyak steps.
  prices = ascent.prices;
  double factor = 1.0;
  int sinceGain = 0;
  double unit = std::ldexp(1.0, static_cast<int>(priceShift<V>()));
  point = ascent.best;
  while (budget > 0 && !clock.expired() && factor > 1e-3) {
    double norm = 0;
    for (size_t row = 0; row < model.rows.size(); ++row) {
      auto g = static_cast<double>(point.load[row] - model.rows[row].limit);
      if (g > 0 || prices[row] > 0)
        norm += g * g;
    }
    if (norm == 0)
      break;
    double target =
        upperBound
            ? static_cast<double>(*upperBound)
            : static_cast<double>(ascent.best.bound) +
                  0.05 * std::abs(static_cast<double>(ascent.best.bound)) + 1;
    double step = factor *
                  std::max(target - static_cast<double>(point.bound), 1.0) /
                  norm * unit;
    for (size_t row = 0; row < model.rows.size(); ++row) {
      auto g = static_cast<double>(point.load[row] - model.rows[row].limit);
      double next = static_cast<double>(prices[row]) + step * g;
      prices[row] = next > 0 ? static_cast<Sum>(next) : 0;
    }
    limitPrices(prices);
    point = evaluate(prices);
    --budget;
    if (point.blocked) { // too far
      factor /= 2;
      sinceGain = 0;
      prices = ascent.prices;
      point = ascent.best;
      continue;
    }
    seen(point);
    if (point.bound > ascent.best.bound) {
      ascent.best = point;
      ascent.prices = prices;
      sinceGain = 0;
    } else if (++sinceGain >= 5) {
      factor /= 2;
      sinceGain = 0;
      prices = ascent.prices;
      point = ascent.best;
    }
  }
  return ascent;
}

template Penalties<int64_t> kerf::plan::penaltiesAt(const Model<int64_t> &,
                                                    const std::vector<Sum> &);
template Penalties<Sum> kerf::plan::penaltiesAt(const Model<Sum> &,
                                                const std::vector<Sum> &);
template void kerf::plan::limitPrices(const Model<int64_t> &,
                                      std::vector<Sum> &);
template void kerf::plan::limitPrices(const Model<Sum> &, std::vector<Sum> &);
template class kerf::plan::Dual<int64_t>;
template class kerf::plan::Dual<Sum>;
