//===- Packing.h - strided collectives as contiguous ones -------*- C++ -*-===//
//
// NCCL moves contiguous parts, one per member, of equal size. A collective
// along a dimension that is not the outermost, or that the group does not
// divide, is packed into parts before and unpacked after; the necessary copies
// follow from the shapes and are computed at load.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_NCCL_PACKING_H
#define KERF_RT_COMM_NCCL_PACKING_H

#include "../../base/Boxes.h"
#include "../Collective.h"

namespace kerf::rt {

/// The calls of NCCL by which collectives are made, in the order in which a
/// lane is connected for them.
enum class NcclCall {
  AllReduce,
  ReduceScatter,
  AllGather,
  Messages, ///< sends and receives between members
  Broadcast
};
NcclCall ncclCallOf(CollectiveKind kind);

struct Packing {
  /// Of NcclCall::Messages: whole parts, from and to these offsets.
  struct Message {
    bool send;
    int64_t peer, offset, bytes;
  };
  std::vector<Message> messages;
  /// Bytes of one member's part, on either side.
  int64_t sendPart = 0, receivePart = 0;
  /// Copies from src into parts, and from parts into dst, by member. Empty if
  /// src or dst is already contiguous per part.
  std::vector<BoxCopy> pack, unpack;
  bool zeroParts = false; ///< parts have padding: zeros before packing
  bool zeroDst = false;   ///< dst has bytes that no part fills
  /// Bytes of the buffers of parts; 0: none is needed.
  int64_t packedBytes = 0, unpackedBytes = 0;
  int64_t sent = 0; ///< bytes that this position sends to others
};

/// Of position `position` in a group of `size`.
Packing makePacking(const CollectiveDesc &desc, int64_t size, int64_t position);

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_PACKING_H
