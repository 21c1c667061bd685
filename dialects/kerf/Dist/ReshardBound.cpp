//===- ReshardBound.cpp - bytes that no way to a layout avoids ------------===//
#include "ReshardBound.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

static constexpr int64_t kMaxRanks = 4096;

ReshardBound::ReshardBound(ArrayRef<int64_t> shape, int64_t elementBytes,
                           const Mesh &mesh, ArrayRef<AxisRef> atoms,
                           const ReshardState &target)
    : shape(shape), atoms(atoms), kept(target.partial) {
  auto isTime = [&](const AxisRef &atom) {
    return mesh.axes[atom.axis].isTime;
  };
  for (const AxisRef &atom : atoms)
    numRanks *= isTime(atom) ? 1 : atom.size;
  scale = Wide(elementBytes) * (mesh.numRanks() / numRanks);
  if (numRanks > kMaxRanks)
    return;
  int64_t stride = 1, numParts = 1; // parts among which the elements are dealt
  for (auto [number, atom] : enumerate(atoms)) {
    digits.emplace_back(numRanks, 0);
    if (isTime(atom))
      continue;
    for (int64_t rank = 0; rank < numRanks; ++rank)
      digits.back()[rank] = rank / stride % atom.size;
    stride *= atom.size;
    if ((target.used | kept) >> number & 1)
      numParts *= atom.size;
  }
  SmallVector<int64_t, 64> elements(numRanks, 1);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    needed.push_back(held(target, dim));
    for (auto [count, interval] : zip_equal(elements, needed.back()))
      count *= interval.end - interval.begin;
  }
  for (int64_t count : elements)
    numNeeded += count;
  numElements = numNeeded / (numRanks / numParts);
}

ReshardBound::Intervals ReshardBound::held(const ReshardState &state,
                                           size_t dim) const {
  int64_t size = shape[dim], numParts = 1;
  SmallVector<int64_t, 64> parts(numRanks, 0);
  for (uint8_t atom : state.dim(dim)) {
    int64_t atomSize = atoms[atom].size;
    numParts *= atomSize;
    for (auto [part, digit] : zip_equal(parts, digits[atom]))
      part = part * atomSize + digit;
  }
  int64_t block =
      state.block(dim) ? state.block(dim) : localSize(size, numParts);
  Intervals result;
  result.reserve(numRanks);
  for (int64_t part : parts) {
    int64_t begin = std::min(part * block, size);
    result.push_back({begin, std::min(begin + block, size)});
  }
  return result;
}

Wide ReshardBound::leastBytes(const ReshardState &state) const {
  if (numRanks > kMaxRanks)
    return 0;
  int64_t numShares = 1;
  for (auto [number, atom] : enumerate(atoms))
    if ((state.partial & ~kept) >> number & 1)
      numShares *= atom.size;
  if (numShares > 1)
    return (numNeeded + numElements * (numShares - 2)) * scale;
  SmallVector<int64_t, 64> overlaps(numRanks, 1);
  for (size_t dim = 0; dim < shape.size(); ++dim)
    for (auto [overlap, has, needs] :
         zip_equal(overlaps, held(state, dim), needed[dim]))
      overlap *= std::max<int64_t>(0, std::min(has.end, needs.end) -
                                          std::max(has.begin, needs.begin));
  Wide numHeld = 0;
  for (int64_t overlap : overlaps)
    numHeld += overlap;
  return (numNeeded - numHeld) * scale;
}
