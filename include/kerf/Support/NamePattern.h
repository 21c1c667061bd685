//===- NamePattern.h - regular expressions of names -------------*- C++ -*-===//
#ifndef KERF_SUPPORT_NAMEPATTERN_H
#define KERF_SUPPORT_NAMEPATTERN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Regex.h"

#include <string>

namespace kerf {

/// What users give for names of weights and values: it has to match the whole
/// name.
inline llvm::Regex namePattern(llvm::StringRef text) {
  return llvm::Regex(("^(" + text + ")$").str());
}

/// For a valid pattern that matches none of `names`, what goes on behind the
/// message that says so: a pattern close to it that does, as in `: a pattern
/// matches the whole name, as 'head.*' does with 'head.bias'`, or a name that
/// is spelled nearly so. Empty if there is neither.
std::string closestPattern(llvm::StringRef text,
                           llvm::ArrayRef<std::string> names);

} // namespace kerf

#endif // KERF_SUPPORT_NAMEPATTERN_H
