//===- AttributeNames.h - what phases tell each other ----------*- C++ -*-===//
//
// Discardable attributes that one phase writes and others read, which belong to
// no dialect.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_ATTRIBUTENAMES_H
#define KERF_SUPPORT_ATTRIBUTENAMES_H

#include "llvm/ADT/StringRef.h"

namespace kerf {

/// On a weight that import made of one that several nodes read: the name of
/// that one, which options of a training step may mean.
inline constexpr llvm::StringLiteral kCopyOfAttr = "kerf.copy_of";

} // namespace kerf

#endif // KERF_SUPPORT_ATTRIBUTENAMES_H
