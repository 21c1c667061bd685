//===- Pieces.h - boxes that a collective moves -----------------*- C++ -*-===//
//
// The data that one position of a group must get, as boxes of its peers'
// sources and of its own destination. Threads that read each other's memory and
// messages between processes use the same list, and so count the same bytes.
// For reduce_scatter the one box is read from every member; an all_reduce has
// no boxes, its ranges are in reduceShare.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_PIECES_H
#define KERF_RT_COMM_PIECES_H

#include "Collective.h"

namespace kerf::rt {

struct Piece {
  int64_t from;                      ///< position in the group
  Shape srcStarts, dstStarts, sizes; ///< no dimension is 0
};

struct Pieces {
  std::vector<Piece> list;
  bool zeroFirst = false; ///< dst has bytes that no piece covers
  int64_t moved = 0;      ///< bytes that come from other members, per call
  int64_t padded = 0;     ///< planned bytes that are padding and do not move
};

Pieces makePieces(const CollectiveDesc &desc, int64_t groupSize,
                  int64_t position);

/// The range of bytes of an all_reduce that a position sums: multiples of a
/// cache line, so that no line has two owners.
struct ByteRange {
  int64_t begin, end;
};
ByteRange reduceShare(int64_t bytes, int64_t groupSize, int64_t position);

} // namespace kerf::rt

#endif // KERF_RT_COMM_PIECES_H
