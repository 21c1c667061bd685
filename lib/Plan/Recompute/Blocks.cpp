//===- Blocks.cpp - blocks of a step's forward pass -----------------------===//
//
// Looking for the longest repetition compares kinds of ops for each period:
// quadratic in the ops of the forward pass, a comparison of two numbers each.
// All else is linear.
//
//===----------------------------------------------------------------------===//
#include "Blocks.h"

#include "../Model/Layouts.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/ShardingRule.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

int64_t kerf::plan::wholeBytes(Value value) {
  return sizeBytes(tensorType(value));
}

bool kerf::plan::isBackward(Operation *op) {
  dist::Phase phase = dist::getPhase(op);
  return phase == dist::Phase::BackwardInput ||
         phase == dist::Phase::BackwardWeight;
}

SmallVector<Operation *> kerf::plan::forwardOps(func::FuncOp function) {
  SmallVector<Operation *> ops;
  llvm::DenseSet<Value> varying;
  for (BlockArgument argument : function.getArguments())
    varying.insert(argument);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<SourceOpInterface, dist::AccumulateOp>(op) ||
        dist::getPhase(&op) != dist::Phase::Forward || dist::isOfLoss(&op) ||
        llvm::none_of(op.getOperands(),
                      [&](Value operand) { return varying.contains(operand); }))
      continue;
    varying.insert(op.result_begin(), op.result_end());
    ops.push_back(&op);
  }
  return ops;
}

namespace {

/// Ops that repeat: [begin, begin + period) and so on, `count` times.
struct Run {
  size_t begin = 0, period = 0, count = 0;
  size_t size() const { return period * count; }
};

class BlockFinder {
public:
  explicit BlockFinder(ArrayRef<Operation *> ops) : ops(ops) {
    numberKinds();
    measure();
  }

  std::vector<OpRange> find() {
    addRepeated(0, ops.size());
    llvm::sort(blocks, [](const OpRange &a, const OpRange &b) {
      return a.begin < b.begin;
    });
    if (blocks.empty())
      addBetweenNecks();
    else
      fillGaps();
    return std::move(blocks);
  }

private:
  void numberKinds() {
    llvm::DenseMap<std::pair<const void *, const void *>, size_t> numbers;
    for (Operation *op : ops) {
      auto type = FunctionType::get(op->getContext(), op->getOperandTypes(),
                                    op->getResultTypes());
      auto key = std::pair(op->getName().getAsOpaquePointer(),
                           type.getAsOpaquePointer());
      kinds.push_back(numbers.try_emplace(key, numbers.size()).first->second);
    }
  }

  /// What crosses each place between ops, and what the backward pass reads.
  void measure() {
    crossing.assign(ops.size() + 1, 0);
    crossingValues.assign(ops.size() + 1, 0);
    savedBefore.assign(ops.size() + 1, 0);
    llvm::DenseMap<Operation *, size_t> places;
    for (auto [place, op] : llvm::enumerate(ops))
      places[op] = place;
    for (auto [place, op] : llvm::enumerate(ops))
      for (Value result : op->getResults()) {
        size_t last = place;
        for (Operation *user : result.getUsers()) {
          if (isBackward(user) || isa<dist::AccumulateOp>(user))
            continue;
          auto found = places.find(user);
          last = std::max(last,
                          found == places.end() ? ops.size() : found->second);
        }
        // As differences to the place before; summed up below.
        if (last > place) {
          crossing[place + 1] += wholeBytes(result);
          ++crossingValues[place + 1];
        }
        if (last > place && last < ops.size()) {
          crossing[last + 1] -= wholeBytes(result);
          --crossingValues[last + 1];
        }
        if (llvm::any_of(result.getUsers(), isBackward))
          savedBefore[place + 1] += wholeBytes(result);
      }
    std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
    std::partial_sum(crossingValues.begin(), crossingValues.end(),
                     crossingValues.begin());
    std::partial_sum(savedBefore.begin(), savedBefore.end(),
                     savedBefore.begin());
  }

  /// The longest run of ops in [begin, end) that repeats itself, and of several
  /// the one with the shortest period.
  Run longestRun(size_t begin, size_t end) const {
    Run best;
    size_t spare = 0; // ops by which the run is longer than its repetitions
    for (size_t period = 1; 2 * period <= end - begin; ++period) {
      size_t same = 0; // ops in front of `at` that are followed by their like
      for (size_t at = begin; at + period <= end; ++at) {
        if (at + period < end && kinds[at] == kinds[at + period]) {
          ++same;
          continue;
        }
        Run run{at - same, period, same / period + 1};
        if (run.count > 1 && run.size() > best.size()) {
          best = run;
          spare = same % period;
        }
        same = 0;
      }
    }
    return align(best, spare);
  }

  /// A run may begin anywhere in its first repetition: where the fewest bytes
  /// cross its cuts, and there as early as can be.
  Run align(const Run &run, size_t spare) const {
    Run best;
    double minBytes = std::numeric_limits<double>::infinity();
    for (size_t offset = 0; offset < run.period; ++offset) {
      Run moved{run.begin + offset, run.period,
                offset <= spare ? run.count : run.count - 1};
      if (moved.count < 2)
        break;
      double bytes = 0;
      for (size_t cut = 0; cut <= moved.count; ++cut)
        bytes += static_cast<double>(crossing[moved.begin + cut * run.period]);
      bytes /= static_cast<double>(moved.count + 1);
      if (bytes < minBytes) {
        minBytes = bytes;
        best = moved;
      }
    }
    return best.count ? best : run;
  }

  void addRepeated(size_t begin, size_t end) {
    if (begin >= end)
      return;
    Run run = longestRun(begin, end);
    if (run.count < 2)
      return;
    // Otherwise it is a part of a layer that happens to repeat.
    int64_t held = 0;
    for (size_t i = 0; i <= run.count; ++i)
      held += crossing[run.begin + i * run.period];
    if (savedIn(run.begin, run.begin + run.size()) >= 2 * held)
      for (size_t i = 0; i < run.count; ++i)
        blocks.push_back(
            {run.begin + i * run.period, run.begin + (i + 1) * run.period});
    addRepeated(begin, run.begin);
    addRepeated(run.begin + run.size(), end);
  }

  void fillGaps() {
    std::vector<OpRange> all;
    for (const OpRange &block : blocks) {
      size_t end = all.empty() ? 0 : all.back().end;
      bool isFirst = all.empty();
      if (end < block.begin &&
          (!isFirst || savedIn(0, block.begin) > crossing[block.begin]))
        all.push_back({end, block.begin});
      all.push_back(block);
    }
    blocks = std::move(all);
  }

  int64_t savedIn(size_t begin, size_t end) const {
    return savedBefore[end] - savedBefore[begin];
  }

  void addBetweenNecks() {
    auto necks = llvm::count(crossingValues, 1);
    auto enough = static_cast<double>(savedIn(0, ops.size())) /
                  std::sqrt(std::max<double>(static_cast<double>(necks), 1));
    for (size_t begin = 0, end = 1; end < ops.size(); ++end) {
      int64_t bytes = savedIn(begin, end);
      if (crossingValues[end] != 1 || static_cast<double>(bytes) < enough ||
          bytes < 2 * crossing[end])
        continue;
      blocks.push_back({begin, end});
      begin = end;
    }
  }

  ArrayRef<Operation *> ops;
  std::vector<size_t> kinds;
  /// By place between ops: bytes and number of values that cross.
  std::vector<int64_t> crossing, crossingValues;
  /// Bytes that the backward pass reads of ops in front of a place.
  std::vector<int64_t> savedBefore;
  std::vector<OpRange> blocks;
};

} // namespace

std::vector<OpRange> kerf::plan::findBlocks(ArrayRef<Operation *> ops) {
  return BlockFinder(ops).find();
}
