//===- IndexMaps.h - where an op reads its operands -------------*- C++ -*-===//
//
// Questions about an nn op that planning and emission share: its kind; for
// kinds whose result elements read elements at indices known in advance, these
// indices; and guards, the conditions under which an operand is read (inside
// the border of a pad, within the part of a concat).
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_INDEXMAPS_H
#define KERF_LOWER_CODEGEN_INDEXMAPS_H

#include "Index.h"

#include "kerf/NN/KernelKind.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace kerf::codegen {

using nn::KernelKind;

/// The kind of an op; Unsupported unless it has one result and KernelInterface.
KernelKind kindOf(mlir::Operation *op);

/// `index` lies in [low, high).
struct Guard {
  Index index;
  int64_t low, high;
};

struct OperandUse {
  unsigned operand;
  IndexVec index;
  llvm::SmallVector<Guard, 2> guards;
};

/// The uses of an Elementwise, Shape, Pad or Concat op for element `index` of
/// its result. Of a Concat's uses exactly one passes its guard, of a Pad at
/// most one.
llvm::SmallVector<OperandUse, 3> operandUses(mlir::Operation *op,
                                             llvm::ArrayRef<Index> index,
                                             IndexSpace &space);

/// Element of an operand with `shape` that is broadcast to `index`.
IndexVec broadcastIndex(llvm::ArrayRef<Index> index,
                        llvm::ArrayRef<int64_t> shape);

inline int64_t numElements(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
}

/// The dimensions along which a Row op combines elements, ascending.
llvm::SmallVector<int64_t> rowDims(mlir::Operation *op);
/// Whether its result keeps them (softmax) or drops them (reduce).
bool keepsRowDims(mlir::Operation *op);
/// Shape of operand 0 without / with only the row dimensions.
llvm::SmallVector<int64_t> outerShape(mlir::Operation *op);
llvm::SmallVector<int64_t> innerShape(mlir::Operation *op);
/// The index of operand 0 for indices of both.
IndexVec joinRowIndex(mlir::Operation *op, llvm::ArrayRef<Index> outer,
                      llvm::ArrayRef<Index> inner);

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_INDEXMAPS_H
