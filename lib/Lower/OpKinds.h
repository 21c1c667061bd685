//===- OpKinds.h - what lowering asks of a tensor op ------------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_OPKINDS_H
#define KERF_LIB_LOWER_OPKINDS_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Whether each element of the op's one result is a cheap function of its
/// operands' elements, the same however often it is computed. Null: false.
bool isElementwise(mlir::Operation *op);

} // namespace kerf

#endif // KERF_LIB_LOWER_OPKINDS_H
