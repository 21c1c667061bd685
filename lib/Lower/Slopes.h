//===- Slopes.h - gradients of activations, found again ---------*- C++ -*-===//
//
// Autodiff writes the gradient of an activation as elementwise ops. Where a
// library can do it after a product it has to be recognised: the same ops are
// built once more, by the same interface, and compared.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_SLOPES_H
#define KERF_LIB_LOWER_SLOPES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

/// If `result` is gelu'(x) dy, for the tanh form and some x: x, and in `ops`
/// those that nothing else needs, in block order. Else a null value.
mlir::Value matchGeluGradient(mlir::Value result, mlir::Value dy,
                              llvm::SmallVectorImpl<mlir::Operation *> &ops);

} // namespace kerf

#endif // KERF_LIB_LOWER_SLOPES_H
