//===- Pieces.cpp - boxes that a collective moves -------------------------===//
//
// The boxes follow from the shapes; see docs/Package.md for their meaning. All
// counts of bytes are per position and add up to the group total.
//
//===----------------------------------------------------------------------===//
#include "Pieces.h"

#include <algorithm>

using namespace kerf::rt;

Pieces kerf::rt::makePieces(const CollectiveDesc &desc, int64_t size,
                            int64_t position) {
  Pieces result;
  Shape zero(desc.srcShape.size(), 0);
  auto add = [&](int64_t from, const Shape &srcStarts, const Shape &dstStarts,
                 const Shape &sizes) {
    int64_t bytes = numBytes(sizes, desc.dtype);
    if (bytes != 0)
      result.list.push_back({from, srcStarts, dstStarts, sizes});
    return bytes;
  };
  int64_t dstBytes = numBytes(desc.dstShape, desc.dtype);
  int64_t covered = 0, planned = 0; // planned: what peers send to this position
  switch (desc.kind) {
  case CollectiveKind::AllReduce:
    return result;
  case CollectiveKind::Broadcast:
    covered = add(desc.root, zero, zero, desc.srcShape);
    planned = result.moved = position == desc.root ? 0 : covered;
    break;
  case CollectiveKind::Permute:
    for (auto [from, to] : desc.pairs)
      if (to == position) {
        covered = add(from, zero, zero, desc.srcShape);
        planned = result.moved = from == to ? 0 : covered;
      }
    break;
  case CollectiveKind::ReduceScatter: {
    Shape starts = zero, sizes = desc.dstShape;
    int64_t share = desc.dstShape[desc.dim];
    starts[desc.dim] = std::min(position * share, desc.srcShape[desc.dim]);
    sizes[desc.dim] =
        std::min(share, desc.srcShape[desc.dim] - starts[desc.dim]);
    covered = add(position, starts, zero, sizes);
    result.moved = (size - 1) * covered;
    planned = (size - 1) * dstBytes;
    break;
  }
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll: {
    bool split = desc.kind == CollectiveKind::AllToAll;
    int64_t concatDim = split ? desc.concatDim : desc.dim;
    int64_t part = desc.srcShape[concatDim];
    Shape srcStarts = zero, block = desc.srcShape;
    int64_t blockBytes = numBytes(desc.srcShape, desc.dtype);
    if (split) {
      int64_t share = desc.dstShape[desc.dim], whole = desc.srcShape[desc.dim];
      srcStarts[desc.dim] = std::min(position * share, whole);
      block[desc.dim] = std::min(share, whole - srcStarts[desc.dim]);
      Shape padded = desc.srcShape;
      padded[desc.dim] = share;
      blockBytes = numBytes(padded, desc.dtype);
    }
    for (int64_t from = 0; from < size; ++from) {
      Shape dstStarts = zero, sizes = block;
      dstStarts[concatDim] = std::min(from * part, desc.dstShape[concatDim]);
      sizes[concatDim] =
          std::min(part, desc.dstShape[concatDim] - dstStarts[concatDim]);
      int64_t copied = add(from, srcStarts, dstStarts, sizes);
      covered += copied;
      if (from != position) {
        result.moved += copied;
        planned += blockBytes;
      }
    }
    break;
  }
  }
  result.zeroFirst = covered < dstBytes;
  result.padded = planned - result.moved;
  return result;
}

ByteRange kerf::rt::reduceShare(int64_t bytes, int64_t groupSize,
                                int64_t position) {
  int64_t share = ceilDiv(ceilDiv(bytes, groupSize), 64) * 64;
  int64_t begin = std::min(position * share, bytes);
  return {begin, std::min(begin + share, bytes)};
}
