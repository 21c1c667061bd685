//===- Packing.cpp - strided collectives as contiguous ones ---------------===//
//
// A part along dimension d is a box of the whole tensor. In the buffer of parts
// it is dense, with the shape of a full part; elements past the tensor's end
// are padding.
//
//===----------------------------------------------------------------------===//
#include "Packing.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
// Whether the parts of `whole` along `dim` lie one behind the other, all full.
bool liesInParts(const Shape &whole, int64_t dim, int64_t part, int64_t size) {
  for (int64_t d = 0; d < dim; ++d)
    if (whole[d] != 1)
      return false;
  return whole[dim] == part * size;
}

// Copies between `whole` and `size` parts of `part` along `dim`.
std::vector<BoxCopy> partCopies(const Shape &whole, int64_t dim, int64_t part,
                                int64_t size, int64_t elementBytes,
                                bool toParts, bool &padded) {
  std::vector<BoxCopy> copies;
  Shape partShape = whole;
  partShape[dim] = part;
  int64_t partBytes = numElements(partShape) * elementBytes;
  Shape zeros(whole.size(), 0);
  for (int64_t i = 0; i < size; ++i) {
    Shape starts = zeros, sizes = partShape;
    starts[dim] = std::min(i * part, whole[dim]);
    sizes[dim] = std::min(part, whole[dim] - starts[dim]);
    padded = padded || sizes[dim] != part;
    BoxCopy copy =
        toParts
            ? makeBoxCopy(whole, starts, partShape, zeros, sizes, elementBytes)
            : makeBoxCopy(partShape, zeros, whole, starts, sizes, elementBytes);
    (toParts ? copy.dstOffset : copy.srcOffset) += i * partBytes;
    copies.push_back(copy);
  }
  return copies;
}
} // namespace

NcclCall kerf::rt::ncclCallOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return NcclCall::AllReduce;
  case CollectiveKind::ReduceScatter:
    return NcclCall::ReduceScatter;
  case CollectiveKind::AllGather:
    return NcclCall::AllGather;
  case CollectiveKind::Broadcast:
    return NcclCall::Broadcast;
  case CollectiveKind::AllToAll:
  case CollectiveKind::Permute:
    return NcclCall::Messages;
  }
  return NcclCall::Messages;
}

Packing kerf::rt::makePacking(const CollectiveDesc &desc, int64_t size,
                              int64_t position) {
  Packing p;
  int64_t bytes = dtypeSize(desc.dtype);
  int64_t src = numBytes(desc.srcShape, desc.dtype),
          dst = numBytes(desc.dstShape, desc.dtype);
  bool ignored = false;
  auto packParts = [&](int64_t dim, int64_t part) {
    Shape shape = desc.srcShape;
    shape[dim] = part;
    p.sendPart = numBytes(shape, desc.dtype);
    if (liesInParts(desc.srcShape, dim, part, size))
      return;
    p.pack =
        partCopies(desc.srcShape, dim, part, size, bytes, true, p.zeroParts);
    p.packedBytes = p.sendPart * size;
  };
  auto unpackParts = [&](int64_t dim, int64_t part) {
    Shape shape = desc.dstShape;
    shape[dim] = part;
    p.receivePart = numBytes(shape, desc.dtype);
    if (liesInParts(desc.dstShape, dim, part, size))
      return;
    p.unpack =
        partCopies(desc.dstShape, dim, part, size, bytes, false, ignored);
    p.unpackedBytes = p.receivePart * size;
  };
  switch (desc.kind) {
  case CollectiveKind::AllReduce: {
    // Every member's share of 2 (N - 1) |src|, the rest to the first ones.
    int64_t total = 2 * (size - 1) * src;
    p.sent = total / size + (position < total % size);
    break;
  }
  case CollectiveKind::ReduceScatter:
    packParts(desc.dim, desc.dstShape[desc.dim]);
    p.receivePart = dst;
    p.sent = (size - 1) * p.sendPart;
    break;
  case CollectiveKind::AllGather:
    p.sendPart = src;
    unpackParts(desc.dim, desc.srcShape[desc.dim]);
    p.sent = (size - 1) * p.sendPart;
    break;
  case CollectiveKind::AllToAll:
    packParts(desc.dim, desc.dstShape[desc.dim]);
    unpackParts(desc.concatDim, desc.srcShape[desc.concatDim]);
    for (int64_t i = 0; i < size; ++i) {
      p.messages.push_back({true, i, p.sendPart * i, p.sendPart});
      p.messages.push_back({false, i, p.receivePart * i, p.receivePart});
    }
    p.sent = (size - 1) * p.sendPart;
    break;
  case CollectiveKind::Broadcast:
    p.sent = position == desc.root ? (size - 1) * src : 0;
    break;
  case CollectiveKind::Permute:
    p.zeroDst =
        std::none_of(desc.pairs.begin(), desc.pairs.end(),
                     [&](const auto &pair) { return pair.second == position; });
    for (auto [from, to] : desc.pairs) {
      if (from == position)
        p.messages.push_back({true, to, 0, src});
      if (to == position)
        p.messages.push_back({false, from, 0, src});
      if (from == position && to != position)
        p.sent += src;
    }
    break;
  }
  return p;
}
