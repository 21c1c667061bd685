//===- SchedulePaths.cpp - the paths of a schedule, and their means -------===//
#include "SchedulePaths.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

using namespace kerf;
using namespace kerf::cost;

/// Of more items a mean is not looked for.
static constexpr size_t kMaxItems = 1024;
/// The price of all steps of a search, some hundredths of a second.
static constexpr int64_t kMaxWork = 40'000'000;
/// A share that may be too low by this part of it is good enough.
static constexpr double kTolerance = 1e-4;
/// A path is searched by a mean of two lists of prices, the best ones so far
/// and the last ones; this is the weight of the best ones.
static constexpr double kInertia = 0.5;
/// The value of item i is made smaller by the factor 1 - i * kUnlike, so that
/// two items never tie: of equal rows the first is taken, and no step of the
/// search undoes the step before it.
static constexpr double kUnlike = 1e-9;

using Factors = std::vector<double>; ///< by item
using Matrix = std::vector<std::vector<double>>;

namespace {

/// The instructions in an order in which each comes behind what it waits for.
/// Items: places forward, then places backward.
class Instructions {
public:
  Instructions(const Schedule &schedule, int64_t microBatches, int64_t chunks);

  size_t size() const { return nodes.size(); }
  /// The factors of the path that is longest if items take so long, and its
  /// length.
  std::pair<Factors, double> longest(const Factors &prices) const;

private:
  static constexpr size_t kNone = ~size_t(0);
  struct Node {
    size_t item;
    size_t before[2]; ///< in the list, and whose result; kNone: there is none
  };
  std::vector<Node> nodes;
  size_t numItems;
};

/// Weights x_j >= 0 of columns a_j with sum_j x_j a_j >= 1 for every item, and
/// the minimum of the sum of the weights of paths: the share is 1 over that
/// sum. There are as many columns as items. A column that is no path is a slack
/// variable of an item: its weight is by how much the item's sum exceeds 1.
class Weights {
public:
  /// Begins with paths that have as many factors as there are, each for one
  /// place, those backward being those forward, if they have such weights.
  static std::optional<Weights> of(const Matrix &paths);

  /// By which every column is worth what it costs.
  const Factors &prices() const { return dual; }
  /// Adds a column that is worth more, for one of those that there are; false
  /// if none can go, for sums are rounded.
  bool enter(Factors column, bool isPath);
  /// The least factor of the mean.
  double share() const;

private:
  Weights() = default;
  void price();

  Matrix columns;
  std::vector<bool> isPath;
  Matrix inverse; ///< of the columns
  std::vector<double> values;
  Factors dual;
};

} // namespace

Instructions::Instructions(const Schedule &schedule, int64_t microBatches,
                           int64_t chunks) {
  auto stages = static_cast<int64_t>(schedule.size());
  int64_t places = stages * chunks;
  numItems = static_cast<size_t>(2 * places);
  std::vector<size_t> nodeOf(numItems * static_cast<size_t>(microBatches),
                             kNone);
  auto slot = [&](Phase phase, int64_t place, int64_t micro) -> size_t & {
    int64_t item = (phase == Phase::Forward ? 0 : places) + place;
    return nodeOf[static_cast<size_t>(item * microBatches + micro)];
  };
  std::vector<size_t> next(schedule.size(), 0), last(schedule.size(), kNone);
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t stage = 0; stage < stages; ++stage)
      for (size_t &at = next[stage]; at < schedule[stage].size(); ++at) {
        auto [phase, micro, chunk] = schedule[stage][at];
        int64_t place = chunk * stages + stage;
        bool isForward = phase == Phase::Forward;
        // The last place turns around.
        bool turns = !isForward && place + 1 == places;
        int64_t from = isForward ? place - 1 : turns ? place : place + 1;
        size_t read = kNone;
        if (from >= 0) {
          read = slot(turns ? Phase::Forward : phase, from, micro);
          if (read == kNone)
            break; // not there yet
        }
        slot(phase, place, micro) = nodes.size();
        nodes.push_back({static_cast<size_t>((isForward ? 0 : places) + place),
                         {last[stage], read}});
        last[stage] = nodes.size() - 1;
        moved = true;
      }
  }
}

std::pair<Factors, double> Instructions::longest(const Factors &prices) const {
  std::vector<double> length(nodes.size(), 0);
  std::vector<size_t> from(nodes.size(), kNone);
  size_t end = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t before : nodes[i].before)
      if (before != kNone && length[before] > length[i]) {
        length[i] = length[before];
        from[i] = before;
      }
    length[i] += prices[nodes[i].item];
    if (length[i] > length[end])
      end = i;
  }
  Factors factors(numItems, 0);
  for (size_t i = end; i != kNone; i = from[i])
    factors[nodes[i].item] += 1;
  return {std::move(factors), length[end]};
}

/// The inverse of a matrix; nothing if it has none.
static std::optional<Matrix> inverseOf(Matrix rows) {
  size_t size = rows.size();
  Matrix inverse(size, std::vector<double>(size, 0));
  for (size_t i = 0; i < size; ++i)
    inverse[i][i] = 1;
  for (size_t pivot = 0; pivot < size; ++pivot) {
    size_t largest = pivot;
    for (size_t i = pivot + 1; i < size; ++i)
      if (std::abs(rows[i][pivot]) > std::abs(rows[largest][pivot]))
        largest = i;
    if (std::abs(rows[largest][pivot]) < 1e-12)
      return std::nullopt;
    std::swap(rows[pivot], rows[largest]);
    std::swap(inverse[pivot], inverse[largest]);
    double by = 1 / rows[pivot][pivot];
    for (size_t j = 0; j < size; ++j) {
      rows[pivot][j] *= by;
      inverse[pivot][j] *= by;
    }
    for (size_t i = 0; i < size; ++i) {
      double factor = rows[i][pivot];
      if (i == pivot || factor == 0)
        continue;
      for (size_t j = 0; j < size; ++j) {
        rows[i][j] -= factor * rows[pivot][j];
        inverse[i][j] -= factor * inverse[pivot][j];
      }
    }
  }
  return inverse;
}

std::optional<Weights> Weights::of(const Matrix &paths) {
  size_t places = paths.size(), size = 2 * places;
  Matrix rows(places, std::vector<double>(places));
  for (size_t i = 0; i < places; ++i)
    for (size_t j = 0; j < places; ++j)
      rows[i][j] = paths[j][i];
  std::optional<Matrix> forward = inverseOf(std::move(rows));
  if (!forward)
    return std::nullopt;
  // With A the factors of a place, the columns are (A A), and one that takes
  // away what is too much for each place backward: (0 -I).
  Weights weights;
  weights.columns.assign(size, Factors(size, 0));
  weights.inverse.assign(size, std::vector<double>(size, 0));
  weights.isPath.assign(size, true);
  for (size_t i = 0; i < places; ++i) {
    for (size_t j = 0; j < places; ++j) {
      weights.columns[i][j] = weights.columns[i][places + j] = paths[i][j];
      weights.inverse[i][j] = (*forward)[i][j];
    }
    size_t rest = places + i;
    weights.columns[rest][rest] = weights.inverse[rest][rest] = -1;
    weights.inverse[rest][i] = 1;
    weights.isPath[rest] = false;
  }
  for (const std::vector<double> &row : weights.inverse) {
    double value = 0;
    for (size_t i = 0; i < size; ++i)
      value += row[i] * (1 - kUnlike * static_cast<double>(i));
    if (value < 0)
      return std::nullopt;
    weights.values.push_back(value);
  }
  weights.price();
  return weights;
}

void Weights::price() {
  dual.assign(columns.size(), 0);
  for (size_t row = 0; row < columns.size(); ++row)
    if (isPath[row])
      for (size_t i = 0; i < columns.size(); ++i)
        dual[i] += inverse[row][i];
}

bool Weights::enter(Factors column, bool path) {
  size_t size = columns.size(), out = size;
  std::vector<double> step(size, 0);
  for (size_t row = 0; row < size; ++row)
    for (size_t i = 0; i < size; ++i)
      step[row] += inverse[row][i] * column[i];
  for (size_t row = 0; row < size; ++row)
    if (step[row] > 1e-9 &&
        (out == size || values[row] * step[out] < values[out] * step[row]))
      out = row;
  if (out == size)
    return false;
  double by = 1 / step[out];
  for (double &each : inverse[out])
    each *= by;
  values[out] *= by;
  for (size_t row = 0; row < size; ++row) {
    if (row == out || step[row] == 0)
      continue;
    for (size_t i = 0; i < size; ++i)
      inverse[row][i] -= step[row] * inverse[out][i];
    values[row] = std::max(values[row] - step[row] * values[out], 0.0);
  }
  columns[out] = std::move(column);
  isPath[out] = path;
  price();
  return true;
}

double Weights::share() const {
  // Worked out from the weights alone: any that are not negative give a share,
  // so nothing rests on how exactly the steps are computed.
  double sum = 0;
  Factors factors(columns.size(), 0);
  for (size_t row = 0; row < columns.size(); ++row) {
    if (!isPath[row])
      continue;
    sum += values[row];
    for (size_t i = 0; i < columns.size(); ++i)
      factors[i] += values[row] * columns[row][i];
  }
  return *std::min_element(factors.begin(), factors.end()) / sum * (1 - 1e-12);
}

/// Factors of one path for each place: the first micro-batch goes forward to it
/// through all places in front of it; from then on the stage has work that
/// comes behind, in the order of its list; and what comes back last from it
/// goes through all places in front of it. Of the list, what comes before the
/// first forward of chunk c are as many micro-batches as there are stages of
/// each chunk c' < c, and what comes behind its last backward are as many. The
/// factors backward are those forward.
static double factorOf(int64_t path, int64_t place, int64_t stages,
                       int64_t microBatches) {
  bool sameStage = path % stages == place % stages, isBefore = place < path;
  return static_cast<double>((sameStage ? microBatches : 0) +
                             (isBefore ? 1 : 0) -
                             (sameStage && isBefore ? stages : 0));
}

/// The weights of these paths with which every place has the same factor.
static std::optional<Weights> firstWeights(int64_t stages, int64_t microBatches,
                                           int64_t chunks) {
  auto places = static_cast<size_t>(stages * chunks);
  Matrix paths(places, Factors(places, 0));
  for (size_t path = 0; path < places; ++path)
    for (size_t place = 0; place < places; ++place)
      paths[path][place] =
          factorOf(static_cast<int64_t>(path), static_cast<int64_t>(place),
                   stages, microBatches);
  return Weights::of(paths);
}

double kerf::cost::shareOfPaths(ScheduleKind kind, int64_t stages,
                                int64_t microBatches, int64_t chunks) {
  auto items = static_cast<size_t>(2 * stages * chunks);
  // The busiest stage works all the time.
  double least =
      static_cast<double>(microBatches) / static_cast<double>(stages);
  if (items > kMaxItems)
    return least;
  std::optional<Weights> weights = firstWeights(stages, microBatches, chunks);
  if (!weights)
    return least;
  auto count = static_cast<int64_t>(items);
  int64_t work = count * (microBatches + 2 * count);
  if (work > kMaxWork / 20)
    return std::max(least, weights->share());
  Instructions instructions(buildSchedule(kind, stages, microBatches, chunks),
                            microBatches, chunks);
  // Prices by which no path is longer than 1, and their sum, below which no sum
  // of weights is.
  Factors best;
  double most = 0;
  for (int64_t left = kMaxWork; left > 0; left -= work) {
    const Factors &prices = weights->prices();
    auto lowest = std::min_element(prices.begin(), prices.end());
    if (*lowest < -1e-9) {
      Factors rest(items, 0);
      rest[static_cast<size_t>(lowest - prices.begin())] = -1;
      if (!weights->enter(std::move(rest), /*path=*/false))
        break;
      continue;
    }
    Factors smooth = prices;
    if (!best.empty())
      for (size_t i = 0; i < items; ++i)
        smooth[i] = kInertia * best[i] + (1 - kInertia) * prices[i];
    auto [path, length] = instructions.longest(smooth);
    double sum = 0, worth = 0, all = 0;
    for (size_t i = 0; i < items; ++i) {
      sum += smooth[i] / length;
      worth += path[i] * prices[i];
      all += prices[i];
    }
    if (sum > most) {
      most = sum;
      best = std::move(smooth);
      for (double &each : best)
        each /= length;
    }
    if (all <= most * (1 + kTolerance))
      break;
    if (worth <= 1 + kTolerance) {
      std::tie(path, length) = instructions.longest(prices);
      left -= work;
      if (length <= 1 + kTolerance)
        break;
    }
    if (!weights->enter(std::move(path), /*path=*/true))
      break;
  }
  return std::max(least, weights->share());
}
