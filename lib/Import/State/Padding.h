//===- Padding.h - proof that what a cache does not hold is unseen -*- C++
//-*-===//
//
// Problem: a cache of fixed length has positions that nothing was written to.
// The model must give the results that it gives without them.
//
// Idea: follow the positions from the cache to the results. Each value on the
// way has one dimension of positions, at which nothing but the own position
// shows ("raw"). Adding the model's mask, or selecting by it, makes those that
// are not filled very small ("hidden"), softmax makes them 0 ("zero"), and a
// product that sums over positions with zeros in one operand sees none of them.
// Anything else that combines positions is refused. What the mask says is
// computed, with every position filled and with none; that a position of the
// mask depends on no other follows from sharding rules in the same way.
//
// Linear in the ops, times the length of the cache for the mask.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_STATE_PADDING_H
#define KERF_LIB_IMPORT_STATE_PADDING_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

#include <optional>
#include <string>

namespace kerf {

/// The positions [0, length) along `dim` of each of `caches` (the others are
/// new) are seen only where `mask` (an integer or bool matrix, samples x
/// positions) is 1.
struct CacheUse {
  llvm::SmallVector<mlir::Value> caches; ///< with what is new
  llvm::SmallVector<unsigned> dims;
  mlir::Value mask;
  int64_t length = 0;
  /// Positions behind these that a step adds; 1: it is one of them. Of several
  /// none may show to those before it, for a prompt may end before they do.
  int64_t newCount = 1;
};

/// Why it cannot be proven that positions where the mask is 0 are unseen, and
/// where; nothing: it is proven.
struct Seen {
  std::string why;
  mlir::Operation *where;
};
std::optional<Seen> findSeenPadding(const CacheUse &use);

} // namespace kerf

#endif // KERF_LIB_IMPORT_STATE_PADDING_H
