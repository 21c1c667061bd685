//===- Bounded.h - outputs whose size the program computes ------*- C++ -*-===//
//
// The attributes that say so; KerfDialect.td says what each means.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_BOUNDED_H
#define KERF_INTERFACES_BOUNDED_H

#include "kerf/Interfaces/KerfDialect.h"

namespace kerf {

inline constexpr llvm::StringLiteral kBoundedAttr = "kerf.bounded";
inline constexpr llvm::StringLiteral kLengthAttr = "kerf.length";

} // namespace kerf

#endif // KERF_INTERFACES_BOUNDED_H
