//===- Exchange.cpp - one rank's share of a collective --------------------===//
//
// The boxes follow from the shapes; see docs/Package.md for their meaning. All
// counts of bytes are per position and add up to the group total.
//
//===----------------------------------------------------------------------===//
#include "Exchange.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

// A chunk of all members fits a second-level cache with 8 of them.
static constexpr int64_t chunkBytes = 64 << 10;

Exchange::Exchange(const CollectiveDesc &desc, int64_t groupSize, int64_t pos)
    : kind(desc.kind), size(groupSize), position(pos),
      elementBytes(dtypeSize(desc.dtype)),
      bytes(numBytes(desc.srcShape, desc.dtype)),
      dstBytes(numBytes(desc.dstShape, desc.dtype)), srcs(groupSize),
      dsts(groupSize) {
  if (desc.reduces())
    reduce = reduceFunction(desc.dtype, desc.reduction);
  size_t rank = desc.srcShape.size();
  Shape zero(rank, 0);
  auto add = [&](int64_t from, const Shape &srcStarts, const Shape &dstStarts,
                 const Shape &sizes) {
    BoxCopy copy = makeBoxCopy(desc.srcShape, srcStarts, desc.dstShape,
                               dstStarts, sizes, elementBytes);
    if (copy.runBytes != 0)
      pieces.push_back({from, copy});
    return copy.totalBytes();
  };
  int64_t covered = 0, planned = 0; // planned: what peers send to this position
  switch (kind) {
  case CollectiveKind::AllReduce:
    return;
  case CollectiveKind::Broadcast:
    covered = add(desc.root, zero, zero, desc.srcShape);
    planned = movedPerRun = position == desc.root ? 0 : covered;
    break;
  case CollectiveKind::Permute:
    for (auto [from, to] : desc.pairs)
      if (to == position) {
        covered = add(from, zero, zero, desc.srcShape);
        planned = movedPerRun = from == to ? 0 : covered;
      }
    break;
  case CollectiveKind::ReduceScatter: {
    Shape starts = zero, sizes = desc.dstShape;
    int64_t share = desc.dstShape[desc.dim];
    starts[desc.dim] = std::min(position * share, desc.srcShape[desc.dim]);
    sizes[desc.dim] =
        std::min(share, desc.srcShape[desc.dim] - starts[desc.dim]);
    covered = add(position, starts, zero, sizes);
    movedPerRun = (size - 1) * covered;
    planned = (size - 1) * dstBytes;
    break;
  }
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll: {
    bool split = kind == CollectiveKind::AllToAll;
    int64_t concatDim = split ? desc.concatDim : desc.dim;
    int64_t part = desc.srcShape[concatDim];
    Shape srcStarts = zero, block = desc.srcShape;
    int64_t blockBytes = bytes;
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
        movedPerRun += copied;
        planned += blockBytes;
      }
    }
    break;
  }
  }
  zeroFirst = covered < dstBytes;
  paddedPerRun = planned - movedPerRun;
}

void Exchange::run(const std::vector<Post> &posts, int64_t &moved,
                   int64_t &padded) {
  if (kind == CollectiveKind::AllReduce)
    return runAllReduce(posts, moved);
  void *dst = posts[position].dst;
  if (zeroFirst)
    std::memset(dst, 0, static_cast<size_t>(dstBytes));
  if (kind == CollectiveKind::ReduceScatter) {
    runReduceScatter(posts, moved);
  } else {
    for (const Piece &piece : pieces)
      if (posts[piece.from].src != dst) { // in place: already there
        piece.copy.run(posts[piece.from].src, dst);
      }
    moved += movedPerRun;
  }
  padded += paddedPerRun;
}

void Exchange::runAllReduce(const std::vector<Post> &posts, int64_t &moved) {
  // Ranges are multiples of a cache line, so that no line has two owners.
  int64_t share = ceilDiv(ceilDiv(bytes, size), 64) * 64;
  int64_t begin = std::min(position * share, bytes);
  int64_t end = std::min(begin + share, bytes);
  for (int64_t at = begin; at < end; at += chunkBytes) {
    int64_t n = std::min(chunkBytes, end - at);
    for (int64_t j = 0; j < size; ++j) {
      srcs[j] = static_cast<const char *>(posts[j].src) + at;
      dsts[j] = static_cast<char *>(posts[j].dst) + at;
    }
    reduce(srcs.data(), size, dsts.data(), size, n / elementBytes);
  }
  moved += 2 * (size - 1) * (end - begin);
}

void Exchange::runReduceScatter(const std::vector<Post> &posts,
                                int64_t &moved) {
  for (const Piece &piece : pieces)
    piece.copy.forEachRun([&](int64_t srcAt, int64_t dstAt) {
      for (int64_t j = 0; j < size; ++j)
        srcs[j] = static_cast<const char *>(posts[j].src) + srcAt;
      void *dst = static_cast<char *>(posts[position].dst) + dstAt;
      reduce(srcs.data(), size, &dst, 1, piece.copy.runBytes / elementBytes);
    });
  moved += movedPerRun;
}
