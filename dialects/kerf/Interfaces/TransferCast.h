//===- TransferCast.h - casts to the type of a message ----------*- C++ -*-===//
//
// Problem: the type in which a value is sent between devices (as
// --gradient-dtype sets it) may differ from the type in which it is made.
//
// Idea: a cast with this attribute. The planner gives the cast the layout in
// which its operand is made, even a partial sum (each part is then rounded), so
// that the cast's result is what is sent. A narrowing transfer cast rounds for
// the message only: lowering removes it together with the cast back if nothing
// is sent between the two.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_TRANSFERCAST_H
#define KERF_INTERFACES_TRANSFERCAST_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Unit attribute on a cast between float types.
inline constexpr llvm::StringLiteral kTransferCast = "kerf.transfer_cast";

inline bool isTransferCast(mlir::Operation *op) {
  return op->hasAttr(kTransferCast);
}

} // namespace kerf

#endif // KERF_INTERFACES_TRANSFERCAST_H
