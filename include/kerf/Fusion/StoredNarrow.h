//===- StoredNarrow.h - products stored in 16 bits --------------*- C++ -*-===//
//
// Problem: where memory is slow beside computing, what a library computes from
// a product of 16 bits (with a bias; of a convolution also with an addend and
// relu) is stored in 16 bits and widened where it is read. Lowering writes that
// into the program, and planning must know how many bytes are held.
//
// Both ask here, with answers of their own: which ops are products, and what
// stands between ops. Sums and activations are steps of an epilogue
// (EpilogueStep).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_STOREDNARROW_H
#define KERF_FUSION_STOREDNARROW_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

enum class ProductKind { None, Matmul, Convolution, InputGradient };

class NarrowQuestions {
public:
  virtual ~NarrowQuestions() = default;
  virtual ProductKind kindOf(mlir::Operation *op) const = 0;
  /// Whether the cast is computed where it stands.
  virtual bool isCast(mlir::Operation *op) const = 0;
  /// Whether the op shows its first operand in another order, type or place.
  virtual bool isMove(mlir::Operation *op) const = 0;
  /// Whether the read computes in its own types from what is stored: it is no
  /// collective, no end of the function and no update.
  virtual bool readsAnyType(mlir::OpOperand &read) const = 0;
  /// Whether the read is of its operand rounded to 16 bits, as an addend of a
  /// call that was asked for before.
  virtual bool isRounded(mlir::OpOperand &read) const = 0;
};

struct StoredNarrow {
  mlir::Value end; ///< the last that the call computes; null: it stays wide
  /// It is the product, widened: nothing is computed behind that.
  bool isProduct = false;
  llvm::SmallVector<mlir::OpOperand *, 2> addends;
};

/// What of the call around a product of 16 bits is stored in 16 bits. A sum
/// with a wide tensor behind a matmul stays wide, as it is in the blocks of
/// transformers. O(ops between a weight and the product).
StoredNarrow findStoredNarrow(mlir::Operation *product,
                              const NarrowQuestions &questions);

} // namespace kerf

#endif // KERF_FUSION_STOREDNARROW_H
