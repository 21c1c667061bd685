//===- Exchange.cpp - one rank's share of a collective --------------------===//
//
// Boxes and counts of bytes come from Pieces.h; here they are copied or summed
// straight from the peers' memory.
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
  Pieces boxes = makePieces(desc, groupSize, pos);
  for (const Piece &piece : boxes.list)
    pieces.push_back(
        {piece.from, makeBoxCopy(desc.srcShape, piece.srcStarts, desc.dstShape,
                                 piece.dstStarts, piece.sizes, elementBytes)});
  zeroFirst = boxes.zeroFirst;
  movedPerRun = boxes.moved;
  paddedPerRun = boxes.padded;
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
    for (const Copy &piece : pieces)
      if (posts[piece.from].src != dst) { // in place: already there
        piece.copy.run(posts[piece.from].src, dst);
      }
    moved += movedPerRun;
  }
  padded += paddedPerRun;
}

void Exchange::runAllReduce(const std::vector<Post> &posts, int64_t &moved) {
  auto [begin, end] = reduceShare(bytes, size, position);
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
  for (const Copy &piece : pieces)
    piece.copy.forEachRun([&](int64_t srcAt, int64_t dstAt) {
      for (int64_t j = 0; j < size; ++j)
        srcs[j] = static_cast<const char *>(posts[j].src) + srcAt;
      void *dst = static_cast<char *>(posts[position].dst) + dstAt;
      reduce(srcs.data(), size, &dst, 1, piece.copy.runBytes / elementBytes);
    });
  moved += movedPerRun;
}
