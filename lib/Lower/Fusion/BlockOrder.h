//===- BlockOrder.h - what must run before what -----------------*- C++ -*-===//
//
// Problem: groups, library calls and collectives may run in any order that
// keeps what the values say, and three things that they do not say.
//
// Idea: a graph over the ops of a block. Its edges are operands; whoever reads
// an old value before whoever writes over it; communication in the order that
// was planned, so that not more is under way; readers of sums that a product
// may write (BiasGradientAttr) behind that product. All of it is read from the
// ops, so that each pass builds the graph anew.
//
// Invariant: the graph has no cycle as long as what is added with addEdge made
// none. Sources, and what only names a destination, are not in it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_FUSION_BLOCKORDER_H
#define KERF_LIB_LOWER_FUSION_BLOCKORDER_H

#include "kerf/Exec/Exec.h"

#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// The value whose memory holds `value`: behind views and waits.
mlir::Value memoryOf(mlir::Value value);

/// What computes `value`, behind reshapes that are views and waits: a result of
/// a group or call, say.
mlir::Value computedValue(mlir::Value value);

/// The operands of a group or library call into which it writes its results, in
/// their order; none for other ops.
mlir::MutableArrayRef<mlir::OpOperand> destinationsOf(mlir::Operation *op);

/// The value over whose memory a result is written; null: memory of its own.
mlir::Value overwrittenBy(mlir::OpResult result);

/// Whether the value to assign is written over the old one where it is
/// computed.
bool isWrittenOver(mlir::Operation *assign);

/// Whether nothing but the result's use as a destination matters: exec.empty, a
/// view of an old value. Such an op stands in front of the first user.
bool namesDestination(mlir::Operation *op);

class BlockOrder {
public:
  /// With the edges of operands, and from readers of an old value to who writes
  /// over it. O(ops + uses).
  explicit BlockOrder(mlir::Block &block);

  /// Adds the order of communication, and that what reads sums comes behind a
  /// product that may write them. One walk of the graph for each collective.
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

  /// What reads the memory of `place`, except to name where it writes; of a
  /// collective that is started also what waits for it.
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
