//===- Bounds.h - dimensions whose size the program computes ----*- C++ -*-===//
//
// Problem: how many elements a NonZero or a NonMaxSuppression gives depends on
// values, and all shapes are static.
//
// Idea: such a tensor has the largest size that it can have, and the first
// `length` elements along the dimension are the model's, where `length` is a
// value of the program. What lies behind them is anything; it never reaches
// what the model sees. An op on such tensors is looked at by its sharding rule,
// which says along which dimension of a result a dimension of an operand goes
// on, and where it is reduced: there the elements behind are replaced by the
// reduction's identity, as partition does with padding. An op that reads across
// the dimension in another way is refused (GraphBuilder::passBounds).
//
// Invariant: a length is an i64 without dimensions from 0 to the size.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_BOUNDS_BOUNDS_H
#define KERF_LIB_IMPORT_BOUNDS_BOUNDS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace kerf::onnx_import {

struct Bound {
  int64_t dim;
  mlir::Value length;
};

class Bounds {
public:
  llvm::ArrayRef<Bound> of(mlir::Value x) const;
  bool has(mlir::Value x) const { return !of(x).empty(); }
  /// Null where the size of the dimension is what the type says.
  mlir::Value lengthOf(mlir::Value x, int64_t dim) const;
  void set(mlir::Value x, int64_t dim, mlir::Value length);
  void forget(mlir::Value x) { known.erase(x); }

  /// A length that is at most `most`.
  void setMost(mlir::Value length, int64_t most) { largest[length] = most; }
  /// The most that an i64 can be, as far as it follows from lengths and
  /// constants; it is not negative then.
  std::optional<int64_t> most(mlir::Value number) const;

private:
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Bound, 1>> known;
  llvm::DenseMap<mlir::Value, int64_t> largest;
};

/// Whether the operator's handler is right for bounded inputs: it says nothing
/// of a size but by the ops that it builds, or asks for lengths itself.
bool takesBounded(llvm::StringRef domain, llvm::StringRef opType);

/// Whether two numbers are the same, since they are computed in the same way
/// from the same values.
bool areSameNumber(mlir::Value a, mlir::Value b);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_BOUNDS_BOUNDS_H
