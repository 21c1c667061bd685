//===- Exchange.h - one rank's share of a collective ------------*- C++ -*-===//
//
// The data movement of thread ranks: given all members' pointers, do the share
// of one position, reading and writing peers' memory in cache-sized pieces.
//
// all_reduce: position i owns the i-th range of elements; it reads that range
// of every member and writes the result to every member while it is in the
// cache: one pass, 2(N-1)/N of the buffer moved per rank, in place if src ==
// dst. All other collectives only read: each position gathers its own dst.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_THREADS_EXCHANGE_H
#define KERF_RT_COMM_THREADS_EXCHANGE_H

#include "../../base/Boxes.h"
#include "../Pieces.h"
#include "Group.h"
#include "Reduce.h"

namespace kerf::rt {

/// Prepared at load; run allocates nothing.
class Exchange {
public:
  Exchange(const CollectiveDesc &desc, int64_t groupSize, int64_t position);

  /// All members' posts, by position. Adds to the bytes moved and skipped.
  void run(const std::vector<Post> &posts, int64_t &moved, int64_t &padded);

private:
  struct Copy {
    int64_t from;
    BoxCopy copy;
  };
  void runAllReduce(const std::vector<Post> &posts, int64_t &moved);
  void runReduceScatter(const std::vector<Post> &posts, int64_t &moved);

  CollectiveKind kind;
  int64_t size, position, elementBytes, bytes, dstBytes;
  ReduceFn reduce = nullptr;
  std::vector<Copy> pieces; ///< copies into own dst; reduce_scatter: one box
  bool zeroFirst = false;   ///< dst has bytes that no piece covers
  int64_t movedPerRun = 0, paddedPerRun = 0;
  std::vector<const void *> srcs;
  std::vector<void *> dsts;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_THREADS_EXCHANGE_H
