//===- Exec.h - the exec dialect --------------------------------*- C++ -*-===//
//
// When: buffers, kernel launches, library and communication calls, one to one
// with the runtime's table of functions (kerf/rt/program.h).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EXEC_EXEC_H
#define KERF_EXEC_EXEC_H

#include "kerf/Dist/Dist.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kerf::exec {

/// Every buffer starts at a multiple of this many bytes
/// (KERF_BUFFER_ALIGNMENT).
constexpr int64_t bufferAlignment = 64;

/// Bytes of one element: i1 takes one.
int64_t elementBytes(mlir::Type elementType);
/// Bytes of a dense tensor or buffer of static shape.
int64_t sizeBytes(mlir::ShapedType type);
/// The element type of a buffer or weight.
mlir::Type elementType(mlir::Value operand);

/// The mesh of the module that holds `op` (the attribute exec.mesh); null if it
/// has none.
dist::MeshAttr getMesh(mlir::Operation *op);
inline constexpr llvm::StringLiteral kMesh = "exec.mesh";

/// On the ops into which an optimizer's update was expanded
/// (kerf-expand-optimizer-updates).
inline constexpr llvm::StringLiteral kUpdateMark = "exec.update";
/// On views and positions that depend on parameters alone: computed once, at
/// load.
inline constexpr llvm::StringLiteral kAtLoad = "exec.at_load";
/// On shape ops whose result is stored instead of being a view, and on products
/// that are stored in their own type although a reader widens it.
inline constexpr llvm::StringLiteral kStoredMark = "exec.stored";

} // namespace kerf::exec

#include "kerf/Exec/ExecDialect.h.inc"
#include "kerf/Exec/ExecEnums.h.inc"

namespace kerf::exec {

/// Whether a step of an epilogue takes a second tensor.
bool takesOperand(PostOpKind kind);

} // namespace kerf::exec

#define GET_ATTRDEF_CLASSES
#include "kerf/Exec/ExecAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Exec/ExecTypes.h.inc"

namespace kerf::exec {

class LibraryCallInterface;

/// An operand of a library call: its name in the package, where its elements
/// lie (null: dense) and the sizes that the call gives it.
struct Role {
  llvm::StringLiteral name;
  mlir::OpOperand *operand;
  ViewAttr view;
  llvm::SmallVector<int64_t> shape;
};

llvm::SmallVector<PostOpAttr> epilogueOf(mlir::ArrayAttr postOps);
/// Pure ops of one other dialect, and exec.yield.
mlir::LogicalResult verifyKernelBody(mlir::Operation *op, mlir::Block &body);
/// The checks of every library call: operands lie within their buffers.
mlir::LogicalResult verifyLibraryCall(mlir::Operation *call);

} // namespace kerf::exec

#include "kerf/Exec/ExecInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kerf/Exec/ExecOps.h.inc"

namespace kerf::exec {

/// The buffers of a call in the runtime's order; a buffer that is read twice
/// occurs once.
struct CallBuffers {
  explicit CallBuffers(LibraryCallInterface call);
  /// The number of a buffer that is read.
  int64_t numberOf(mlir::Value read) const;
  /// The number of an operand's buffer; -1 for a weight.
  int64_t numberOf(mlir::OpOperand &operand) const;

  llvm::SmallVector<mlir::Value> values; ///< by number
  int64_t numReads = 0;                  ///< how many of them are read

private:
  unsigned firstWritten; ///< number of the first operand that is written
};

/// Ranks in the group of a collective.
int64_t groupSize(mlir::Operation *collective, dist::AxesAttr axes);

} // namespace kerf::exec

#endif // KERF_EXEC_EXEC_H
