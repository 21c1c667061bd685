//===- Json.h - JSON from files of others -----------------------*- C++ -*-===//
//
// llvm::json::parse recurses into every nested value, and so does its
// destructor: a file of a million brackets overflows the stack. This parser
// first checks the depth.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_JSON_H
#define KERF_SUPPORT_JSON_H

#include "llvm/Support/JSON.h"

namespace kerf {

/// No file that Kerf writes or reads is nested more deeply.
constexpr unsigned kMaxJsonDepth = 100;

/// llvm::json::parse of text with at most kMaxJsonDepth levels of nesting.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text);

} // namespace kerf

#endif // KERF_SUPPORT_JSON_H
