//===- Units.h - which ops are computed together ----------------*- C++ -*-===//
//
// Problem: cut a function of tensor ops into as few passes over memory as code
// generation and library can do.
//
// Idea: matmuls and convolutions first become library calls and take in what
// they can (Library.h). What is left forms kernels greedily: in program order
// each op opens a unit and draws in the units of its operands as long as code
// generation takes the union (canFuse) and no path leads out of the union and
// back into it. Ops that only move elements were sunk to their users and belong
// to them; they become a unit of their own only where somebody needs them in
// memory.
//
// What depends on nothing but parameters is computed once, at load: such ops
// (`init`) form units among themselves.
//
// What outlives a step is written in place: the unit that computes the value of
// a dist.assign (or of a sum over micro-batches) writes it over the old one, if
// everything else that reads the old one can run before; else it is computed
// aside and copied, last. Either way the order of units keeps old values until
// they have been read.
//
// Invariant: units are disjoint, cover every op that is neither a source nor a
// terminator, and the graph of units has no cycle. O(ops x units) at worst.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_UNITS_H
#define KERF_LIB_LOWER_UNITS_H

#include "Library.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace kerf {

/// Larger groups only cost compile time.
inline constexpr size_t kMaxKernelOps = 96;

struct Unit {
  enum class Kind {
    Kernel,  ///< generated code
    Library, ///< `call`
    Alias,   ///< one reshape or contiguous slice: the same bytes
    Other    ///< one op of another dialect: a collective, ...
  };
  Kind kind = Kind::Kernel;
  llvm::SmallVector<mlir::Operation *> ops; ///< in block order
  bool init = false;
  std::optional<LibraryCall> call;
  /// Of a product (Offers.cpp): the sums, over what it reduces over, of its
  /// right or left operand, which a kernel computes, could come from the call;
  /// in the first of `parts` rows of the kernel's result, zeros in the others.
  struct Offer {
    mlir::Value value;
    bool ofRhs = false;
    int64_t parts = 1;
  };
  std::optional<Offer> offer;
  /// Of a product (Masks.cpp): a kernel's `result` is its own, kept where that
  /// of a product with ReLU, `forward`, is positive; the call could do both.
  struct Mask {
    mlir::Value result, forward;
  };
  std::optional<Mask> mask;
  /// Values of the unit that others read, and that it reads, in order.
  llvm::SmallVector<mlir::Value> outputs, inputs;
};

/// A value that ends in memory which had another before: a mutable source, or
/// the argument of a sum over micro-batches.
struct Destination {
  mlir::Value value;
  mlir::Value place;                 ///< the source's result, or the argument
  mlir::Operation *assign = nullptr; ///< null: a sum, which is returned
  bool direct = false; ///< the unit that computes it writes over the old value
};

/// Whether a source is small enough to stand in the kernels that use it.
bool isInline(mlir::Operation *op);

/// Reshapes, and slices of whole rows that start where a buffer may start.
bool isAlias(mlir::Operation *op);

/// Whether the first reader of a view's result, behind reshapes, is an update.
bool isReadByUpdate(mlir::Operation *view);

/// Shape ops were copied for each of their users (sinkShapeOps); the views that
/// updates read are made once.
void mergeViews(mlir::Block &block);

/// The units of a function whose shape ops and inline constants are sunk
/// (sinkShapeOps), in an order in which they can run. Fails, with an error,
/// only where code generation refuses a single op.
mlir::FailureOr<std::vector<Unit>>
formUnits(mlir::func::FuncOp function,
          llvm::SmallVectorImpl<Destination> &destinations);

} // namespace kerf

#endif // KERF_LIB_LOWER_UNITS_H
