//===- TransferCast.h - casts to the type of a message ----------*- C++ -*-===//
//
// Problem: in which type a value is sent between devices (--gradient-dtype,
// say) is not always the type in which it is made.
//
// Idea: a cast in front of the way, with this attribute. The planner takes the
// operand as it is made, in parts of a sum too (each is rounded): what moves is
// the cast's result. A narrower one is a rounding for the way alone: lowering
// takes it away with the cast back where nothing moves between the two.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_TRANSFERCAST_H
#define KERF_INTERFACES_TRANSFERCAST_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// On a cast between floats, without value.
inline constexpr llvm::StringLiteral kTransferCast = "kerf.transfer_cast";

inline bool isTransferCast(mlir::Operation *op) {
  return op->hasAttr(kTransferCast);
}

} // namespace kerf

#endif // KERF_INTERFACES_TRANSFERCAST_H
