//===- Joins.cpp - concatenations that nobody computes; see Joins.h -------===//
#include "kerf/Fusion/Joins.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

bool kerf::isOutermost(llvm::ArrayRef<int64_t> shape, int64_t dim) {
  return llvm::all_of(shape.take_front(static_cast<size_t>(dim)),
                      [](int64_t size) { return size == 1; });
}

bool kerf::isStoredOutermost(llvm::ArrayRef<int64_t> shape, int64_t dim,
                             int64_t numParts) {
  // Rows stay rows.
  return numParts > kMaxKernelParts &&
         numParts == shape[static_cast<size_t>(dim)] &&
         dim + 1 != static_cast<int64_t>(shape.size()) &&
         !isOutermost(shape, dim);
}

bool kerf::paysToJoin(llvm::ArrayRef<JoinedPart> parts, int64_t alignment) {
  int64_t computed = 0, stored = 0, bytes = 0;
  for (const JoinedPart &part : parts) {
    bool isPlace = bytes % alignment == 0;
    bytes += part.sizeBytes;
    computed += part.isComputed;
    stored += part.isComputed && part.isStored && isPlace;
  }
  auto numParts = static_cast<int64_t>(parts.size());
  return 2 * stored >= numParts ||
         (numParts > kMaxKernelParts && 2 * computed >= numParts);
}
