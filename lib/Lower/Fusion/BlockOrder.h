//===- BlockOrder.h - dependences between groups and calls ------*- C++ -*-===//
//
// Problem: groups, library calls and collectives may run in any order that
// respects the operands and three dependences that operands do not express.
//
// Idea: a graph over the ops of a block. Its edges are operands; and (1) a
// reader of an old value runs before the op that writes over it; (2)
// communication keeps the planned order, so that no more is under way than
// planned; (3) readers of sums that a product may write (BiasGradientAttr) run
// behind that product. All edges follow from the ops, so each pass builds its
// own graph.
//
// Invariant: the graph has no cycle unless addEdge() adds one. Sources, and ops
// that only name a destination, are not in it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_FUSION_BLOCKORDER_H
#define KERF_LIB_LOWER_FUSION_BLOCKORDER_H

#include "kerf/Exec/Exec.h"

#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// The value whose memory holds `value`: behind views and waits.
mlir::Value memoryOf(mlir::Value value);

/// The op that computes `value`, behind reshapes that are views and waits: for
/// example a group or call.
mlir::Value computedValue(mlir::Value value);

/// The operands of a group or library call that are the destinations of its
/// results, in their order; none for other ops.
mlir::MutableArrayRef<mlir::OpOperand> destinationsOf(mlir::Operation *op);

/// The value over whose memory a result is written; null: memory of its own.
mlir::Value overwrittenBy(mlir::OpResult result);

/// Whether the value of the assignment is computed directly over the old one.
bool isWrittenOver(mlir::Operation *assign);

/// Whether the op only names a destination: exec.empty, or a view of an old
/// value. Such an op is placed before its first user.
bool namesDestination(mlir::Operation *op);

class BlockOrder {
public:
  /// Builds the edges of operands, and from readers of an old value to the op
  /// that writes over it. O(ops + uses).
  explicit BlockOrder(mlir::Block &block);

  /// Adds edges (2) and (3). One walk of the graph for each collective.
  void addPlannedOrder();

  /// The ops of the graph in the order of the block.
  llvm::ArrayRef<mlir::Operation *> getOps() const { return ops; }
  /// The place of an op in that order.
  int64_t positionOf(mlir::Operation *op) const { return number.at(op); }
  llvm::ArrayRef<int64_t> successorsOf(int64_t op) const {
    return successors[op];
  }
  bool contains(mlir::Operation *op) const { return number.contains(op); }

  /// Whether a path leads from an op to another of a set.
  bool isReachable(mlir::Operation *from,
                   const llvm::DenseSet<mlir::Operation *> &to) const;
  void addEdge(mlir::Operation *from, mlir::Operation *to);

  /// The ops that read the memory of `place`, except to name a destination; for
  /// a started collective also its wait.
  llvm::SmallVector<mlir::Operation *> readersOf(mlir::Value place) const;

private:
  void addEdgeFromPlace(mlir::Value place, mlir::Operation *writer);
  void addReadersBeforeWriters();

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int64_t> number;
  llvm::SmallVector<llvm::SmallVector<int64_t>> successors;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *>> readers;
};

} // namespace kerf

#endif // KERF_LIB_LOWER_FUSION_BLOCKORDER_H
