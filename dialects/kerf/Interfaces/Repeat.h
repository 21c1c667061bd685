//===- Repeat.h - constants made where they are used ------------*- C++ -*-===//
#ifndef KERF_INTERFACES_REPEAT_H
#define KERF_INTERFACES_REPEAT_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Whether a value can be made anew inside of a region: constants, and numbers
/// that follow from such.
bool canRepeat(mlir::Value value);

/// Makes such values that the regions of `op` use from outside in the regions
/// that use them.
void repeatInRegions(mlir::Operation *op);

} // namespace kerf

#endif // KERF_INTERFACES_REPEAT_H
