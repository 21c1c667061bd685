//===- Joins.h - concatenations that nobody computes ------------*- C++ -*-===//
//
// Problem: the steps of an unrolled loop store their results, and a
// concatenation copies all of them, by a kernel that is as long as the loop.
//
// Idea: where parts lie one behind the other in memory, each is written in its
// place. That pays where parts are stored anyway, since others read them or a
// library computes them. What the concatenation's kernel would compute itself
// is stored by a kernel of its own, which is good where there are many such
// parts: they are equal kernels. Lowering joins the parts, and planning must
// know that one buffer holds them from the first part on.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_JOINS_H
#define KERF_FUSION_JOINS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace kerf {

/// Concatenations of more parts are not computed by one kernel, which would
/// have an operand for each.
inline constexpr int64_t kMaxKernelParts = 16;

/// Whether a part of a tensor of this shape, one index of `dim` or a range of
/// them, is contiguous: no dimension in front of it has more than one index.
bool isOutermost(llvm::ArrayRef<int64_t> shape, int64_t dim);

/// Whether a concatenation of this many parts along `dim`, not the outermost,
/// is one along a new outermost dimension, which its readers read with strides:
/// each part has one index of `dim`, and there are too many for a kernel.
bool isStoredOutermost(llvm::ArrayRef<int64_t> shape, int64_t dim,
                       int64_t numParts);

/// An operand of a concatenation.
struct JoinedPart {
  int64_t sizeBytes;
  bool isComputed; ///< by a kernel or a library call of this step
  /// Whether it is in memory anyway: others read it too, or a library computes
  /// it.
  bool isStored;
};

/// Whether the parts, which lie one behind the other, are to be written in
/// their places; buffers begin at multiples of `alignment` bytes.
bool paysToJoin(llvm::ArrayRef<JoinedPart> parts, int64_t alignment);

} // namespace kerf

#endif // KERF_FUSION_JOINS_H
