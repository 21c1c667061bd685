//===- GeluGradient.h - the gradient of GELU, found again -------*- C++ -*-===//
//
// Autodiff writes the gradient of an activation as elementwise ops. To let a
// library compute it behind a product, it must be recognised: the same ops are
// built again, by the same interface, and compared.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_LIBRARY_GELUGRADIENT_H
#define KERF_LIB_LOWER_LIBRARY_GELUGRADIENT_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace kerf {

/// If `result` is gelu'(x) dy, for the tanh form and some x: x, and in `ops`
/// those that nothing else needs, in block order. Else a null value.
mlir::Value matchGeluGradient(mlir::Value result, mlir::Value dy,
                              llvm::SmallVectorImpl<mlir::Operation *> &ops);

/// The same for a result that is at most three ops behind `dy`, each the only
/// user of the one before (both may be widened, the result narrowed).
struct GeluGradient {
  mlir::Value result, x;
  llvm::SmallVector<mlir::Operation *> ops;
};
std::optional<GeluGradient> findGeluGradient(mlir::Value dy);

} // namespace kerf

#endif // KERF_LIB_LOWER_LIBRARY_GELUGRADIENT_H
