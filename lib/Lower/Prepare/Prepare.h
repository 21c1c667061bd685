//===- Prepare.h - shared by the passes of this folder ----------*- C++ -*-===//
//
// Each file here is one or two passes over a function of tensor ops, before
// lowering decides what is computed together (docs/Exec.md has their order).
// Each takes a function of one block and leaves an equivalent one.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_PREPARE_PREPARE_H
#define KERF_LIB_LOWER_PREPARE_PREPARE_H

#include "kerf/Lower/Passes.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Calls `visit` with every op of a function that has a body, in order; the op
/// may be erased, and ops may be added anywhere.
void forEachOp(mlir::func::FuncOp function,
               llvm::function_ref<void(mlir::Operation *)> visit);

/// A constant tensor of one number, an attribute of the element type.
mlir::Value splatConstant(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::RankedTensorType type, mlir::Attribute number);
/// The same of a float type, rounded to it.
mlir::Value splatConstant(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::RankedTensorType type, double number);

/// Whether a value depends on parameters alone that no step changes: it is
/// computed once, at load.
bool isComputedAtLoad(mlir::Value value);

} // namespace kerf

#endif // KERF_LIB_LOWER_PREPARE_PREPARE_H
