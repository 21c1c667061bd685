//===- Boxes.h - copying boxes between dense tensors ------------*- C++ -*-===//
//
// Parameters, inputs, outputs and collectives all move boxes: a box of one
// dense row-major tensor into a box of another. Dimensions that are whole in
// both are merged, so the inner loop is one memcpy of the longest run.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_BOXES_H
#define KERF_RUNTIME_BASE_BOXES_H

#include "Types.h"

namespace kerf::rt {

/// A prepared copy: loops of `counts` with byte strides around a contiguous
/// run.
struct BoxCopy {
  struct Loop {
    int64_t count, srcStride, dstStride; ///< strides in bytes
  };
  std::vector<Loop> loops; ///< outermost first
  int64_t runBytes = 0;    ///< 0: empty box
  int64_t srcOffset = 0, dstOffset = 0;

  int64_t totalBytes() const;
  void run(const void *src, void *dst) const;
  /// Calls visit(srcByteOffset, dstByteOffset) for each run.
  template <typename Visit> void forEachRun(Visit &&visit) const {
    if (runBytes != 0)
      walk(0, srcOffset, dstOffset, visit);
  }

private:
  template <typename Visit>
  void walk(size_t depth, int64_t src, int64_t dst, Visit &visit) const {
    if (depth == loops.size()) {
      visit(src, dst);
      return;
    }
    for (int64_t i = 0; i < loops[depth].count; ++i)
      walk(depth + 1, src + i * loops[depth].srcStride,
           dst + i * loops[depth].dstStride, visit);
  }
};

/// The box of `sizes` at srcStarts of a dense srcShape, to dstStarts of
/// dstShape.
BoxCopy makeBoxCopy(const Shape &srcShape, const Shape &srcStarts,
                    const Shape &dstShape, const Shape &dstStarts,
                    const Shape &sizes, int64_t elementSize);

/// True when a box of a dense tensor is one contiguous range; its element
/// offset.
bool isContiguousBox(const Shape &shape, const Shape &starts,
                     const Shape &sizes, int64_t &offset);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_BOXES_H
