//===- Exec.h - the exec dialect --------------------------------*- C++ -*-===//
//
// When: buffers, kernel launches, library and communication calls, one to one
// with the runtime's table of functions (kerf/rt/program.h).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EXEC_EXEC_H
#define KERF_EXEC_EXEC_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
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
/// The manifest's name of an element type ("f32", "i64", "bool"), empty if it
/// has none.
llvm::StringRef dtypeName(mlir::Type elementType);

} // namespace kerf::exec

#include "kerf/Exec/ExecDialect.h.inc"
#include "kerf/Exec/ExecEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Exec/ExecAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Exec/ExecTypes.h.inc"

#define GET_OP_CLASSES
#include "kerf/Exec/ExecOps.h.inc"

#endif // KERF_EXEC_EXEC_H
