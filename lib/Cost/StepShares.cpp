//===- StepShares.cpp - what a pipelined step takes at least --------------===//
//
// Idea: what must happen one after another is a path, and a step takes at least
// as long as any path, so at least as long as any mean of paths. One path for
// each chunk c of each stage s: the first micro-batch goes forward to it
// through all chunks in front of it; from then on the stage has work that
// comes behind, in the order of its list; and what comes back last from it
// goes through all chunks in front of it. Of its list, what comes before the
// first forward of chunk c are p micro-batches of each chunk c' < c of the
// stage, and what comes behind its last backward are as many. So with t the
// time of a chunk per micro-batch, forward or backward,
//
//   makespan >= M sum_c' t(s,c') + sum over chunks before (s,c) of t
//               - p sum_{c' < c} t(s,c').
//
// How a model is cut is not known here. So the mean is taken in which every
// chunk has the same factor: that is the share. Its weights l(s,c) follow from
// linear equations: for every chunk (s,c), with (s',c') behind it if it comes
// later in the pipeline,
//
//   M sum_c' l(s,c') + sum_{behind} l(s',c') - p sum_{c' > c} l(s,c') = share.
//
// With one chunk they are in proportion to ((M-1)/M)^(p-1-s), and the share is
// 1 / (1 - ((M-1)/M)^p). Any weights that are not negative give a bound (the
// least factor), so nothing rests on how exactly the equations are solved.
//
// GPipe's forward pass ends on every stage before its backward pass begins.
// Each takes the time of all stages, and then M-1 times the longest, which is
// at least a p-th of all: 1 + (M-1)/p.
//
// The busiest stage has at least a p-th of what runs once.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/StepShares.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace kerf;
using namespace kerf::cost;

/// Beyond so many chunks the bound says nothing of waiting.
static constexpr int64_t kMaxChunks = 512;

using Matrix = std::vector<std::vector<double>>;

/// Solves `rows` x = (0, ..., 0, 1); empty where that has no one solution.
static std::vector<double> solveForLast(Matrix rows) {
  size_t size = rows.size();
  for (size_t i = 0; i < size; ++i)
    rows[i].push_back(i + 1 == size ? 1 : 0);
  for (size_t pivot = 0; pivot < size; ++pivot) {
    auto largest =
        std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(pivot),
                         rows.end(), [&](const auto &a, const auto &b) {
                           return std::abs(a[pivot]) < std::abs(b[pivot]);
                         });
    if (std::abs((*largest)[pivot]) < 1e-12)
      return {};
    std::swap(rows[pivot], *largest);
    for (size_t i = 0; i < size; ++i) {
      double factor = rows[i][pivot] / rows[pivot][pivot];
      if (i == pivot || factor == 0)
        continue;
      for (size_t j = pivot; j <= size; ++j)
        rows[i][j] -= factor * rows[pivot][j];
    }
  }
  std::vector<double> solution;
  for (size_t i = 0; i < size; ++i)
    solution.push_back(rows[i][size] / rows[i][i]);
  return solution;
}

namespace {
/// The paths of an interleaved schedule, one for each chunk of the pipeline in
/// its order: number c p + s.
struct Paths {
  int64_t stages, microBatches, chunks;

  int64_t count() const { return stages * chunks; }

  /// How often path `path` takes the time of chunk `chunk`.
  double factor(int64_t path, int64_t chunk) const {
    bool sameStage = path % stages == chunk % stages, isBefore = chunk < path;
    return static_cast<double>((sameStage ? microBatches : 0) +
                               (isBefore ? 1 : 0) -
                               (sameStage && isBefore ? stages : 0));
  }

  /// Weights of a mean in which every chunk has the same factor, of sum 1.
  std::vector<double> weights() const {
    auto size = static_cast<size_t>(count());
    Matrix rows(size + 1, std::vector<double>(size + 1, 0));
    for (size_t chunk = 0; chunk < size; ++chunk) {
      for (size_t path = 0; path < size; ++path)
        rows[chunk][path] =
            factor(static_cast<int64_t>(path), static_cast<int64_t>(chunk));
      rows[chunk][size] = -1; // the share
      rows[size][chunk] = 1;  // weights have the sum 1
    }
    std::vector<double> solution = solveForLast(std::move(rows));
    if (solution.empty())
      return std::vector<double>(size, 1.0 / static_cast<double>(size));
    solution.pop_back();
    double sum = 0;
    for (double &weight : solution)
      sum += weight = std::max(weight, 0.0);
    for (double &weight : solution)
      weight /= sum;
    return solution;
  }

  /// The least factor of a chunk in a mean of such weights.
  double shareOf(const std::vector<double> &weights) const {
    double least = INFINITY;
    for (int64_t chunk = 0; chunk < count(); ++chunk) {
      double share = 0;
      for (int64_t path = 0; path < count(); ++path)
        share += weights[static_cast<size_t>(path)] * factor(path, chunk);
      least = std::min(least, share);
    }
    return least * (1 - 1e-12); // sums are rounded
  }
};
} // namespace

static double shareOf(ScheduleKind kind, int64_t stages, int64_t microBatches,
                      int64_t chunks) {
  auto micro = static_cast<double>(microBatches);
  auto all = static_cast<double>(stages);
  switch (kind) {
  case ScheduleKind::Forward:
  case ScheduleKind::GPipe:
    return 1 + (micro - 1) / all;
  case ScheduleKind::OneFOneB:
    return 1 / (1 - std::pow((micro - 1) / micro, all));
  case ScheduleKind::Interleaved:
    break;
  }
  if (stages * chunks > kMaxChunks)
    return micro / all;
  Paths paths{stages, microBatches, chunks};
  return paths.shareOf(paths.weights());
}

StepShares kerf::cost::leastShares(ScheduleKind kind, int64_t stages,
                                   int64_t microBatches, int64_t chunks) {
  assert(stages >= 1 && microBatches >= 1 && chunks >= 1);
  if (stages == 1)
    return {static_cast<double>(microBatches), 1};
  return {shareOf(kind, stages, microBatches, chunks),
          1 / static_cast<double>(stages)};
}
