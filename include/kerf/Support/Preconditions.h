//===- Preconditions.h - when a rewrite is right ----------------*- C++ -*-===//
//
// Problem: a pattern is only right under its conditions, and nothing shows
// whether a test would fail if one were missing.
//
// Idea: conditions have names (Preconditions.def) and are checked through
// `holds`. A test makes one of them always true, by the attribute
// `kerf.without` on the module, and expects wrong results.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_PRECONDITIONS_H
#define KERF_SUPPORT_PRECONDITIONS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace kerf {

enum class Precondition {
#define KERF_PRECONDITION(ID, NAME, SUITE, MEANING) ID,
#include "kerf/Support/Preconditions.def"
#undef KERF_PRECONDITION
};

/// Test only: on a module, the name of the precondition that is not checked.
inline constexpr llvm::StringLiteral kWithoutAttr = "kerf.without";

inline constexpr llvm::StringLiteral kPreconditionNames[] = {
#define KERF_PRECONDITION(ID, NAME, SUITE, MEANING) NAME,
#include "kerf/Support/Preconditions.def"
#undef KERF_PRECONDITION
};

/// `condition`, on which a rewrite at `op` depends.
inline bool holds(mlir::Operation *op, Precondition which, bool condition) {
  if (condition)
    return true;
  while (mlir::Operation *parent = op->getParentOp())
    op = parent;
  auto without = op->getAttrOfType<mlir::StringAttr>(kWithoutAttr);
  return without &&
         without.getValue() == kPreconditionNames[static_cast<size_t>(which)];
}

} // namespace kerf

#endif // KERF_SUPPORT_PRECONDITIONS_H
