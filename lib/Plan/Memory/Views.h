//===- Views.h - ops that planning sees through -----------------*- C++ -*-===//
//
// Problem: what a reshape gives, a sum over one micro-batch, or a cast that
// undoes another one (kerf/Fusion/Casts.h) is no value in memory: readers see
// what it was made of.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MEMORY_VIEWS_H
#define KERF_LIB_PLAN_MEMORY_VIEWS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf::plan {

/// What is asked while views are found.
struct ViewQuestions {
  /// Whether the op is a view by itself.
  llvm::function_ref<bool(mlir::Operation *)> isView;
  /// Whether a collective or a slice stands between a value and its use.
  llvm::function_ref<bool(mlir::OpOperand &)> moves;
  /// Whether both are computed in one function of a stage.
  llvm::function_ref<bool(mlir::Operation *, mlir::Operation *)> areTogether;
};

class Views {
public:
  Views() = default;
  Views(mlir::Block &block, const ViewQuestions &questions);

  /// The operand, of this or another op, that readers of the op see; null: the
  /// op computes.
  mlir::OpOperand *seenBy(mlir::Operation *op) const { return seen.lookup(op); }
  bool contains(mlir::Operation *op) const { return seen.contains(op); }
  /// The value that is in memory.
  mlir::Value rootOf(mlir::Value value) const;
  /// Ops whose readers see what `cast` reads, which is computed all the same.
  llvm::ArrayRef<mlir::Operation *> undoing(mlir::Operation *cast) const {
    auto found = undoneBy.find(cast);
    return found == undoneBy.end() ? llvm::ArrayRef<mlir::Operation *>()
                                   : found->second;
  }

private:
  void findUndone(mlir::Operation *cast, const ViewQuestions &questions);
  bool isOnlyUndone(mlir::Operation *op) const;

  llvm::DenseMap<mlir::Operation *, mlir::OpOperand *> seen;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>
      undoneBy;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_VIEWS_H
