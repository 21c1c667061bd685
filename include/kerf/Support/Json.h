//===- Json.h - JSON from files of others -----------------------*- C++ -*-===//
//
// llvm::json::parse calls itself for every nested value, and so does what
// destroys them: a file of a million brackets ends the process. Here the depth
// is counted first.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_JSON_H
#define KERF_SUPPORT_JSON_H

#include "llvm/Support/JSON.h"

namespace kerf {

/// Deeper than anything that Kerf writes or reads.
constexpr unsigned kMaxJsonDepth = 100;

/// llvm::json::parse of at most kMaxJsonDepth arrays and objects in each other.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text);

} // namespace kerf

#endif // KERF_SUPPORT_JSON_H
