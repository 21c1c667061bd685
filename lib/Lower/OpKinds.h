//===- OpKinds.h - what lowering asks of a tensor op ------------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_OPKINDS_H
#define KERF_LIB_LOWER_OPKINDS_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// On ops that an optimizer's update was expanded to
/// (expand-optimizer-updates).
inline constexpr llvm::StringLiteral kUpdateAttr = "exec.update";

/// On shape ops whose result is what lies in memory and not a view, and on
/// products that are stored in their own type although a reader widens it.
inline constexpr llvm::StringLiteral kStoredAttr = "exec.stored";

/// Whether each element of the op's one result is a cheap function of its
/// operands' elements, the same however often it is computed. Null: false.
bool isElementwise(mlir::Operation *op);

} // namespace kerf

#endif // KERF_LIB_LOWER_OPKINDS_H
