//===- Arena.cpp - offsets for buffers with known lives -------------------===//
//
// See kerf/Fusion/Arena.h.
//
//===----------------------------------------------------------------------===//
#include "kerf/Fusion/Arena.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <map>

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

std::optional<ArenaPlan> kerf::planArena(ArrayRef<ArenaBuffer> buffers,
                                         int64_t alignment) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  SmallVector<int64_t> sizes, order;
  int64_t sum = 0;
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    auto padded = llvm::checkedAdd(buffer.sizeBytes, alignment - 1);
    if (!padded)
      return std::nullopt;
    sizes.push_back(*padded / alignment * alignment);
    auto total = llvm::checkedAdd(sum, sizes.back());
    if (!total)
      return std::nullopt;
    sum = *total;
    order.push_back(i);
  }
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return std::pair(-sizes[a], a) < std::pair(-sizes[b], b);
  });
  // Placed buffers by offset.
  SmallVector<int64_t> placed;
  for (int64_t i : order) {
    if (sizes[i] == 0)
      continue;
    int64_t offset = 0;
    for (int64_t other : placed) {
      if (!meet(buffers[i], buffers[other]))
        continue;
      if (offset + sizes[i] <= plan.offsets[other])
        break;
      offset = std::max(offset, plan.offsets[other] + sizes[other]);
    }
    plan.offsets[i] = offset;
    plan.totalBytes = std::max(plan.totalBytes, offset + sizes[i]);
    auto *position =
        llvm::upper_bound(placed, offset, [&](int64_t o, int64_t p) {
          return o < plan.offsets[p];
        });
    placed.insert(position, i);
  }
  plan.lowerBoundBytes = *lowerBound(buffers, sizes);
  return plan;
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
