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
  /// Values of the unit that others read, and that it reads, in order.
  llvm::SmallVector<mlir::Value> outputs, inputs;
};

/// Whether a source is small enough to stand in the kernels that use it.
bool isInline(mlir::Operation *op);

/// The units of a function whose shape ops and inline constants are sunk
/// (sinkShapeOps), in an order in which they can run. Fails, with an error,
/// only where code generation refuses a single op.
mlir::FailureOr<std::vector<Unit>> formUnits(mlir::func::FuncOp function);

} // namespace kerf

#endif // KERF_LIB_LOWER_UNITS_H
