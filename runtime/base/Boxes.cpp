//===- Boxes.cpp - copying boxes between dense tensors --------------------===//
//
// From the innermost dimension outwards, a dimension joins the run if
// everything inside it is whole in source and destination.
//
//===----------------------------------------------------------------------===//
#include "Boxes.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

BoxCopy kerf::rt::makeBoxCopy(const Shape &srcShape, const Shape &srcStarts,
                              const Shape &dstShape, const Shape &dstStarts,
                              const Shape &sizes, int64_t elementSize) {
  BoxCopy copy;
  Shape srcStrides = denseStrides(srcShape),
        dstStrides = denseStrides(dstShape);
  for (size_t d = 0; d < sizes.size(); ++d) {
    copy.srcOffset += srcStarts[d] * srcStrides[d] * elementSize;
    copy.dstOffset += dstStarts[d] * dstStrides[d] * elementSize;
  }
  copy.runBytes = elementSize;
  bool whole = true;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (whole) {
      copy.runBytes *= sizes[d];
    } else if (sizes[d] != 1) {
      copy.loops.push_back(
          {sizes[d], srcStrides[d] * elementSize, dstStrides[d] * elementSize});
    }
    whole = whole && sizes[d] == srcShape[d] && sizes[d] == dstShape[d];
    if (sizes[d] == 0)
      return BoxCopy();
  }
  std::reverse(copy.loops.begin(), copy.loops.end());
  return copy;
}

int64_t BoxCopy::totalBytes() const {
  int64_t bytes = runBytes;
  for (const Loop &loop : loops)
    bytes *= loop.count;
  return bytes;
}

void BoxCopy::run(const void *src, void *dst) const {
  forEachRun([&](int64_t s, int64_t d) {
    std::memcpy(static_cast<char *>(dst) + d,
                static_cast<const char *>(src) + s,
                static_cast<size_t>(runBytes));
  });
}

bool kerf::rt::isContiguousBox(const Shape &shape, const Shape &starts,
                               const Shape &sizes, int64_t &offset) {
  BoxCopy copy =
      makeBoxCopy(shape, starts, sizes, Shape(sizes.size(), 0), sizes, 1);
  offset = copy.srcOffset;
  return copy.loops.empty();
}
