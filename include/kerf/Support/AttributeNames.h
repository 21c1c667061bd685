//===- AttributeNames.h - attributes of no dialect --------------*- C++ -*-===//
//
// Discardable attributes that belong to no dialect, which one phase writes and
// others read.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_ATTRIBUTENAMES_H
#define KERF_SUPPORT_ATTRIBUTENAMES_H

#include "llvm/ADT/StringRef.h"

namespace kerf {

/// On a weight that import copied because several nodes read it: the name of
/// the original, which options of a training step may use.
inline constexpr llvm::StringLiteral kCopyOfAttr = "kerf.copy_of";

} // namespace kerf

#endif // KERF_SUPPORT_ATTRIBUTENAMES_H
