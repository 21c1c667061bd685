//===- Arena.cpp - offsets for buffers with known lives -------------------===//
//
// See kerf/Fusion/Arena.h.
//
//===----------------------------------------------------------------------===//
#include "kerf/Fusion/Arena.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <tuple>
#include <vector>

using namespace kerf;
using llvm::ArrayRef;
using llvm::SmallVector;

static bool meet(const ArenaBuffer &a, const ArenaBuffer &b) {
  return a.begin <= b.end && b.begin <= a.end;
}

static std::optional<int64_t> lowerBound(ArrayRef<ArenaBuffer> buffers,
                                         ArrayRef<int64_t> sizes) {
  // Changes of the live sum; at equal times what begins counts before what
  // ends.
  std::map<std::pair<int64_t, int>, int64_t> changes;
  for (auto [buffer, size] : llvm::zip(buffers, sizes)) {
    changes[{buffer.begin, 0}] += size;
    changes[{buffer.end, 1}] -= size;
  }
  int64_t live = 0, max = 0;
  for (auto [time, change] : changes) {
    live += change;
    max = std::max(max, live);
  }
  return max;
}

/// How often an order is tried, changed each time, where it needs more than the
/// bound: seldom for many buffers, whose packing is close to it anyway.
static int64_t numRounds(int64_t buffers) {
  constexpr int64_t max = 12, pairs = int64_t(1) << 20;
  return std::clamp<int64_t>(pairs / (buffers * buffers + 1), 1, max);
}

namespace {
/// A buffer that has its place.
struct Placed {
  int64_t begin, end; ///< life
  int64_t top;        ///< offset + size
};
} // namespace

/// Whether there is a time at which all are live.
static bool meetAtOnce(ArrayRef<ArenaBuffer> buffers) {
  int64_t lastBegin = std::numeric_limits<int64_t>::min();
  int64_t firstEnd = std::numeric_limits<int64_t>::max();
  for (const ArenaBuffer &buffer : buffers) {
    lastBegin = std::max(lastBegin, buffer.begin);
    firstEnd = std::min(firstEnd, buffer.end);
  }
  return lastBegin <= firstEnd;
}

/// First fit in the given order.
static void place(ArrayRef<ArenaBuffer> buffers, ArrayRef<int64_t> sizes,
                  ArrayRef<int64_t> order, ArenaPlan &plan) {
  plan.offsets.assign(buffers.size(), 0);
  plan.totalBytes = 0;
  if (meetAtOnce(buffers)) { // as weights do
    for (int64_t i : order) {
      plan.offsets[i] = sizes[i] ? plan.totalBytes : 0;
      plan.totalBytes += sizes[i];
    }
    return;
  }
  // Placed buffers by offset, then by begin. Buffers of one offset never live
  // at the same time, so those that live together with a given buffer are
  // neighbours in that list. Networks repeat layers, so offsets are few.
  std::map<int64_t, std::vector<Placed>> levels;
  for (int64_t i : order) {
    if (sizes[i] == 0)
      continue;
    const ArenaBuffer &buffer = buffers[i];
    int64_t offset = 0;
    for (const auto &[bottom, level] : levels) {
      if (offset + sizes[i] <= bottom)
        break; // of this level and those above it none is in the way
      auto meeting = llvm::partition_point(
          level, [&](const Placed &each) { return each.end < buffer.begin; });
      for (; meeting != level.end() && meeting->begin <= buffer.end; ++meeting)
        offset = std::max(offset, meeting->top);
    }
    plan.offsets[i] = offset;
    plan.totalBytes = std::max(plan.totalBytes, offset + sizes[i]);
    std::vector<Placed> &level = levels[offset];
    auto behind = llvm::partition_point(
        level, [&](const Placed &each) { return each.begin < buffer.begin; });
    level.insert(behind, {buffer.begin, buffer.end, offset + sizes[i]});
  }
}

namespace {
/// What is taken during [begin, end], from the bottom.
struct Ground {
  int64_t begin, end, height;
};
} // namespace

/// Neighbours of one height become one.
static void level(std::vector<Ground> &grounds) {
  std::vector<Ground> merged;
  for (const Ground &ground : grounds)
    if (!merged.empty() && merged.back().height == ground.height)
      merged.back().end = ground.end;
    else
      merged.push_back(ground);
  grounds = std::move(merged);
}

/// Best fit: of the buffers that fit in time onto the lowest ground, the first
/// in the given order lies there; if there is none, the ground is filled up to
/// its lower neighbour.
static void pileUp(ArrayRef<ArenaBuffer> buffers, ArrayRef<int64_t> sizes,
                   ArrayRef<int64_t> order, ArenaPlan &plan) {
  plan.offsets.assign(buffers.size(), 0);
  plan.totalBytes = 0;
  SmallVector<int64_t> left;
  Ground all = {std::numeric_limits<int64_t>::max(), 0, 0};
  for (int64_t i : order)
    if (sizes[i] > 0) {
      left.push_back(i);
      all.begin = std::min(all.begin, buffers[i].begin);
      all.end = std::max(all.end, buffers[i].end);
    }
  std::vector<Ground> grounds = {all};
  while (!left.empty()) {
    auto lowest = std::min_element(
        grounds.begin(), grounds.end(),
        [](const Ground &a, const Ground &b) { return a.height < b.height; });
    Ground ground = *lowest;
    auto *fitting = llvm::find_if(left, [&](int64_t i) {
      return ground.begin <= buffers[i].begin && buffers[i].end <= ground.end;
    });
    if (fitting == left.end()) {
      int64_t next = std::numeric_limits<int64_t>::max();
      if (lowest != grounds.begin())
        next = std::prev(lowest)->height;
      if (std::next(lowest) != grounds.end())
        next = std::min(next, std::next(lowest)->height);
      lowest->height = next;
    } else {
      const ArenaBuffer &buffer = buffers[*fitting];
      int64_t top = ground.height + sizes[*fitting];
      plan.offsets[*fitting] = ground.height;
      plan.totalBytes = std::max(plan.totalBytes, top);
      left.erase(fitting);
      SmallVector<Ground, 3> pieces;
      if (ground.begin < buffer.begin)
        pieces.push_back({ground.begin, buffer.begin - 1, ground.height});
      pieces.push_back({buffer.begin, buffer.end, top});
      if (buffer.end < ground.end)
        pieces.push_back({buffer.end + 1, ground.end, ground.height});
      grounds.insert(grounds.erase(lowest), pieces.begin(), pieces.end());
    }
    level(grounds);
  }
}

std::optional<ArenaPlan> kerf::planArena(ArrayRef<ArenaBuffer> buffers,
                                         int64_t alignment) {
  SmallVector<int64_t> sizes;
  int64_t sum = 0;
  for (const ArenaBuffer &buffer : buffers) {
    auto padded = llvm::checkedAdd(buffer.sizeBytes, alignment - 1);
    if (!padded)
      return std::nullopt;
    sizes.push_back(*padded / alignment * alignment);
    auto total = llvm::checkedAdd(sum, sizes.back());
    if (!total)
      return std::nullopt;
    sum = *total;
  }
  auto bySize = [&](int64_t i) { return -static_cast<double>(sizes[i]); };
  auto byLife = [&](int64_t i) {
    return static_cast<double>(buffers[i].begin - buffers[i].end - 1);
  };
  auto byArea = [&](int64_t i) { return bySize(i) * -byLife(i); };
  auto byBegin = [&](int64_t i) {
    return static_cast<double>(buffers[i].begin);
  };
  auto byEnd = [&](int64_t i) { return -static_cast<double>(buffers[i].end); };
  ArenaPlan best;
  best.lowerBoundBytes = *lowerBound(buffers, sizes);
  best.totalBytes = std::numeric_limits<int64_t>::max();
  auto orderBy = [&](llvm::function_ref<double(int64_t)> key) {
    SmallVector<std::tuple<double, int64_t, int64_t>> keys;
    for (size_t i = 0; i < buffers.size(); ++i)
      keys.push_back({key(i), -sizes[i], i});
    llvm::sort(keys);
    SmallVector<int64_t> order;
    for (auto [first, second, i] : keys)
      order.push_back(i);
    return order;
  };
  ArenaPlan plan;
  plan.lowerBoundBytes = best.lowerBoundBytes;
  auto isBest = [&] {
    if (plan.totalBytes < best.totalBytes)
      best = plan;
    return best.totalBytes == best.lowerBoundBytes;
  };
  auto tryFirstFit = [&](llvm::function_ref<double(int64_t)> key) {
    SmallVector<int64_t> order = orderBy(key);
    int64_t rounds = numRounds(order.size());
    for (int64_t round = 0; round < rounds; ++round) {
      place(buffers, sizes, order, plan);
      if (isBest())
        return true;
      // What ended at the top is placed first.
      SmallVector<int64_t> top, others;
      for (int64_t i : order)
        (plan.offsets[i] + sizes[i] == plan.totalBytes ? top : others)
            .push_back(i);
      order = std::move(top);
      llvm::append_range(order, others);
    }
    return false;
  };
  auto tryBestFit = [&](llvm::function_ref<double(int64_t)> key) {
    pileUp(buffers, sizes, orderBy(key), plan);
    return isBest();
  };
  if (!tryFirstFit(bySize) && !tryBestFit(byLife) && !tryBestFit(byArea) &&
      !tryBestFit(byBegin) && !tryBestFit(byEnd) && !tryBestFit(bySize) &&
      !tryFirstFit(byArea))
    tryFirstFit(byBegin);
  return best;
}

std::string kerf::checkArena(ArrayRef<ArenaBuffer> buffers,
                             const ArenaPlan &plan, int64_t alignment) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t begin = plan.offsets[i], end = begin + buffers[i].sizeBytes;
    if (begin < 0 || begin % alignment != 0)
      return llvm::formatv("buffer {0} has offset {1}, no multiple of {2}", i,
                           begin, alignment);
    if (end > plan.totalBytes)
      return llvm::formatv("buffer {0} ends at {1}, beyond {2}", i, end,
                           plan.totalBytes);
    for (size_t j = 0; j < i; ++j)
      if (meet(buffers[i], buffers[j]) &&
          begin < plan.offsets[j] + buffers[j].sizeBytes &&
          plan.offsets[j] < end)
        return llvm::formatv("buffers {0} and {1} overlap while both are live",
                             j, i);
  }
  return "";
}
