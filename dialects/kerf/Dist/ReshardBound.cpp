//===- ReshardBound.cpp - bytes that no way to a layout avoids ------------===//
#include "ReshardBound.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

static constexpr int64_t kMaxRanks = 4096;

ReshardBound::ReshardBound(ArrayRef<int64_t> shape, ArrayRef<int64_t> sizes,
                           uint32_t time, const ReshardState &target)
    : shape(shape), sizes(sizes), target(target), time(time) {
  for (size_t number = 0; number < sizes.size(); ++number)
    all |= 1u << number;
  numRanks = numRanksOf(all);
  if (numRanks > kMaxRanks)
    return;
  numNeeded = numCommon(target);
  numElements =
      numNeeded / (numRanks / numRanksOf(target.used | target.partial));
}

int64_t ReshardBound::numRanksOf(uint32_t mask) const {
  int64_t ranks = 1;
  for (auto [number, size] : enumerate(sizes))
    if ((mask & ~time) >> number & 1)
      ranks *= size;
  return ranks;
}

static uint32_t maskOf(ArrayRef<uint8_t> list) {
  uint32_t mask = 0;
  for (uint8_t atom : list)
    mask |= 1u << atom;
  return mask;
}

static int64_t numParts(ArrayRef<uint8_t> list, ArrayRef<int64_t> sizes) {
  int64_t parts = 1;
  for (uint8_t atom : list)
    parts *= sizes[atom];
  return parts;
}

ReshardBound::Cut ReshardBound::cut(const ReshardState &state,
                                    size_t dim) const {
  int64_t block = state.block(dim);
  if (!block)
    block = localSize(shape[dim], numParts(state.dim(dim), sizes));
  return {state.dim(dim), shape[dim], block};
}

bool ReshardBound::isEven(const Cut &cut) const {
  return cut.block * numParts(cut.list, sizes) == cut.size;
}

void ReshardBound::dropCommon(Pair &pair) const {
  auto &[held, needed] = pair;
  if (!isEven(held) || !isEven(needed))
    return;
  while (!held.list.empty() && !needed.list.empty() &&
         held.list[0] == needed.list[0]) {
    int64_t parts = sizes[held.list[0]];
    for (Cut *cut : {&held, &needed}) {
      cut->list = cut->list.drop_front();
      cut->size /= parts;
    }
  }
}

/// The number of the part that each rank has that the atoms of `mask` tell
/// apart; those in time count as their first digit.
static SmallVector<int64_t, 64> partsOfRanks(ArrayRef<uint8_t> list,
                                             uint32_t mask, uint32_t time,
                                             ArrayRef<int64_t> sizes) {
  SmallVector<int64_t, 64> parts{0};
  for (auto [number, size] : enumerate(sizes)) {
    if (!((mask & ~time) >> number & 1))
      continue;
    auto *at = llvm::find(list, number);
    int64_t weight = at == list.end()
                         ? 0
                         : numParts(ArrayRef(std::next(at), list.end()), sizes);
    size_t known = parts.size();
    parts.resize(known * size);
    for (int64_t digit = 1; digit < size; ++digit)
      for (size_t rank = 0; rank < known; ++rank)
        parts[digit * known + rank] = parts[rank] + digit * weight;
  }
  return parts;
}

int64_t ReshardBound::numCommon(const Group &group) const {
  const auto &[mask, pairs] = group;
  // Each element is held by one digit and needed by one: any two meet once.
  if (pairs.size() == 1 && !(mask & time) &&
      !(maskOf(pairs[0].held.list) & maskOf(pairs[0].needed.list)))
    return pairs[0].held.size;
  SmallVector<int64_t, 64> common(numRanksOf(mask), 1);
  for (const auto &[held, needed] : pairs)
    for (auto [count, has, needs] :
         zip_equal(common, partsOfRanks(held.list, mask, time, sizes),
                   partsOfRanks(needed.list, mask, time, sizes))) {
      int64_t begin = std::max(has * held.block, needs * needed.block);
      int64_t end = std::min(
          {(has + 1) * held.block, (needs + 1) * needed.block, held.size});
      count *= std::max<int64_t>(0, end - begin);
    }
  return std::accumulate(common.begin(), common.end(), int64_t(0));
}

Wide ReshardBound::numCommon(const ReshardState &state) const {
  SmallVector<Group, 4> groups;
  Wide result = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    Pair pair = {cut(state, dim), cut(target, dim)};
    dropCommon(pair);
    const auto &[held, needed] = pair;
    // Parts of what the other side has whole: the same number for each rank.
    if ((held.list.empty() && isEven(needed)) ||
        (needed.list.empty() && isEven(held))) {
      result *= std::min(held.block, needed.block);
      continue;
    }
    Group own = {maskOf(held.list) | maskOf(needed.list), {pair}};
    erase_if(groups, [&](Group &other) {
      if (!(other.mask & own.mask))
        return false;
      own.mask |= other.mask;
      own.pairs.append(other.pairs);
      return true;
    });
    groups.push_back(std::move(own));
  }
  uint32_t alone = all;
  for (const Group &group : groups) {
    result *= numCommon(group);
    alone &= ~group.mask;
  }
  return result * numRanksOf(alone);
}

Wide ReshardBound::minElements(const ReshardState &state) const {
  if (numRanks > kMaxRanks)
    return 0;
  if (uint32_t open = state.partial & ~target.partial) {
    int64_t numShares = 1; // of those in time, too
    for (auto [number, size] : enumerate(sizes))
      if (open >> number & 1)
        numShares *= size;
    if (numShares > 1)
      return numNeeded + numElements * (numShares - 2);
  }
  return numNeeded - numCommon(state);
}
