//===- MemoryFloor.h - what any lowering of a function holds ----*- C++ -*-===//
//
// Problem: "nothing fits" and a bound under a memory limit are proofs only if
// the Problem never counts more than what is laid out. Which values are stored
// at all is decided by fusion, long after the search.
//
// Idea: count what no lowering can do without. Parameters and optimizer states;
// sums over micro-batches; inputs and outputs where the whole step is one
// function; and when a product runs, what it reads and writes and what products
// before it have left for products behind it (Instant).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_MEMORYFLOOR_H
#define KERF_LIB_PLAN_MODEL_MEMORYFLOOR_H

#include "kerf/Plan/BatchAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf::plan {

/// What must be held of a source, whichever ops are computed at load.
struct HeldSource {
  /// Bytes of each element; 0: nothing needs to be held.
  int64_t bytesPerElement = 0;
  /// Each device holds it in the layout of its node. False: several uses may
  /// each hold another slice, so only the sum over all devices is known.
  bool isInLayout = true;
};

/// The moment at which a product (a matrix multiplication or convolution) runs.
///
/// What a product makes, r, is computed once. From there the values x that
/// other products read come by ops of one element each (elementwise, over rows,
/// casts, views), and lowering is free to store x, r or anything on the way,
/// but one of them it must store from the time that r is made until x is read.
/// Going up from each x along one fixed operand per op gives each stored value
/// at most one r, so the sizes of different r add up, in any order of ops that
/// keeps dependencies. Outputs are counted by themselves: of the r that they
/// come from nothing else need be stored.
struct Instant {
  mlir::Operation *product;
  /// The operands that are stored when the product runs, each from another r.
  llvm::SmallVector<mlir::OpOperand *, 2> reads;
  /// Whether its own r is stored, since a product depends on it. (Where an
  /// output does, what is stored may be the output.)
  bool isStored = false;
  /// Bytes (of whole tensors) of each other r that is alive while the product
  /// runs: the product depends on it, and so does a product that depends on
  /// this one.
  int64_t othersBytes = 0;
};

class MemoryFloor {
public:
  MemoryFloor(mlir::func::FuncOp function, bool isTraining);

  HeldSource heldOf(mlir::Value source) const;
  /// Whether an op of sources alone may be computed at load.
  bool mayBeAtLoad(mlir::Operation *op) const { return atLoad.contains(op); }

  /// Bytes of all sources that are held, by all devices together.
  int64_t minHeldBytes() const;
  /// Bytes of inputs, whole: of each element what it takes if it is cast before
  /// it is transferred.
  int64_t minInputBytes() const;
  /// What is returned that inference computes, each value once. It has a slot
  /// of the function that computes it, in the type of the output, as long as
  /// this function runs.
  llvm::ArrayRef<mlir::OpOperand *> getOutputs() const { return outputs; }

  /// Of some products, in program order.
  llvm::ArrayRef<Instant> getInstants() const { return instants; }
  /// No element of a value takes less than this, whatever type it is stored in.
  int64_t narrowest(mlir::Value value) const;

private:
  int64_t bytesPerElement(mlir::Value value, bool &hasSeveralUses) const;
  bool isProduct(mlir::Operation *op) const;
  bool storesResult(mlir::Operation *op) const;
  mlir::Value rootOf(mlir::Value value) const;
  void findOutputs();
  void findInstants();

  mlir::Block &body;
  bool isTraining;
  llvm::DenseSet<mlir::Operation *> atLoad;
  bool hasHalves = false; ///< some value is a float of 16 bits
  std::vector<mlir::OpOperand *> outputs;
  std::vector<Instant> instants;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_MEMORYFLOOR_H
