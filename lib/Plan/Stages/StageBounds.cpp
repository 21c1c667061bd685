//===- StageBounds.cpp - bounds over all cuts into stages -----------------===//
#include "StageBounds.h"

#include "StageBytes.h"

#include "kerf/Plan/Solvers.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static constexpr double kNever = std::numeric_limits<double>::infinity();

StageBounds::StageBounds(func::FuncOp function, const MeshCandidate &candidate,
                         const PlanOptions &options, const BatchAnalysis &batch)
    : groups(colocationGroupsOf(function)), stages(candidate.stages),
      flops(groups.size() + 1, 0), crossings(groups.size()),
      within(candidate.stages, 0) {
  llvm::DenseMap<Operation *, size_t> groupOf;
  for (auto [i, group] : llvm::enumerate(groups))
    for (Operation *op : group)
      groupOf[op] = i;
  llvm::DenseMap<Value, int64_t> summed = partsOfSums(function, batch);
  auto part = [&](Value value) {
    auto type = tensorType(value);
    auto found = summed.find(value);
    int64_t each = found == summed.end() ? elementBytes(type) : found->second;
    return static_cast<double>(type.getNumElements() * each) /
           static_cast<double>(candidate.devicesPerStage());
  };
  for (auto [i, group] : llvm::enumerate(groups)) {
    flops[i + 1] = flops[i];
    for (Operation *op : group) {
      flops[i + 1] += static_cast<double>(wholeFlops(op));
      for (Value result : op->getResults())
        crossings.add(crossingOf(result, i, part(result), groupOf));
      // When a source is assigned, its new value is sent to the other stages
      // that use it.
      if (auto assign = dyn_cast<dist::AssignOp>(op))
        crossings.add(crossingOf(assign.getSource(), i,
                                 part(assign.getSource()), groupOf));
    }
  }
  bool waived = isWorkWaived(options) || options.objective != Objective::Volume;
  stageFlops =
      waived ? kNever
             : flops.back() * 1.1 / static_cast<double>(stages) * (1 + 1e-12);
  placeCuts();
  impossible = max == kNever;
  if (!impossible && !waived)
    findSure();
}

void StageBounds::placeCuts() {
  size_t n = groups.size();
  auto p = static_cast<size_t>(stages);
  using Table = std::vector<std::vector<double>>;
  Table busiest(p + 1, std::vector<double>(n + 1, kNever)), sum = busiest;
  busiest[0][0] = sum[0][0] = 0;
  for (size_t end = 1; end <= n; ++end) {
    std::vector<double> sent = crossings.sentFrom(end);
    for (size_t begin = end; begin-- > 0;) {
      if (flops[end] - flops[begin] > stageFlops)
        break;
      for (size_t k = 1; k <= std::min(p, begin + 1); ++k) {
        if (sum[k - 1][begin] == kNever)
          continue;
        busiest[k][end] =
            std::min(busiest[k][end], std::max(busiest[k - 1][begin],
                                               sent[begin] + within[k - 1]));
        sum[k][end] = std::min(sum[k][end], sum[k - 1][begin] + sent[begin]);
      }
    }
  }
  max = busiest[p][n];
  all = sum[p][n];
}

double StageBounds::minBytes(double problemCost) const {
  if (impossible)
    return kNever;
  return std::max(max, (problemCost + all) / static_cast<double>(stages));
}

void StageBounds::findSure() {
  size_t n = groups.size();
  auto p = static_cast<size_t>(stages);
  using Table = std::vector<std::vector<char>>;
  // Whether the groups before i, or from i on, can form k stages.
  Table front(p + 1, std::vector<char>(n + 1, false)), behind = front;
  auto fits = [&](size_t begin, size_t end) {
    return flops[end] - flops[begin] <= stageFlops;
  };
  front[0][0] = behind[0][n] = true;
  for (size_t k = 1; k <= p; ++k)
    for (size_t begin = 0; begin < n; ++begin)
      for (size_t end = begin + 1; end <= n && fits(begin, end); ++end) {
        front[k][end] |= front[k - 1][begin];
        behind[k][begin] |= behind[k - 1][end];
      }
  for (size_t k = 0; k < p; ++k) {
    size_t latest = 0, earliest = n;
    for (size_t begin = 0; begin < n; ++begin)
      for (size_t end = begin + 1;
           front[k][begin] && end <= n && fits(begin, end); ++end)
        if (behind[p - 1 - k][end]) {
          latest = std::max(latest, begin);
          earliest = std::min(earliest, end);
        }
    sure.push_back({latest, earliest});
  }
}

void StageBounds::sharpen(const Graph &graph, double deadlineSeconds,
                          Effort *effort) {
  auto scale = static_cast<double>(graph.getByteScale());
  if (impossible || stageFlops == kNever)
    return;
  for (int64_t stage = 0; stage < stages; ++stage) {
    auto [first, last] = sure[stage];
    if (first >= last)
      continue;
    llvm::DenseSet<Operation *> inside;
    for (size_t i = first; i < last; ++i)
      inside.insert(groups[i].begin(), groups[i].end());
    SolveOptions solveOptions;
    solveOptions.deadlineSeconds = deadlineSeconds;
    solveOptions.effort = effort;
    solveOptions.maxTableEntries = int64_t(1) << 23;
    solveOptions.relativeGap = 1e-3;
    Problem part = graph.problemOf(inside);
    SolveResult result = solve(part, solveOptions);
    if (result.status != Status::Infeasible)
      within[stage] =
          std::max(0.0, static_cast<double>(result.lowerBound) / scale);
  }
  placeCuts();
}
