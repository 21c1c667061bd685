//===- NamePattern.cpp - regular expressions of names ---------------------===//
#include "kerf/Support/NamePattern.h"

#include "kerf/Format/ClosestName.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

std::string kerf::closestPattern(llvm::StringRef text,
                                 llvm::ArrayRef<std::string> names) {
  // "head" of "head.bias": what matches a part is completed.
  std::string inner =
      text.contains('|') ? ("(" + text + ")").str() : text.str();
  for (const std::string &pattern :
       {inner + ".*", ".*" + inner, ".*" + inner + ".*"}) {
    llvm::Regex regex = namePattern(pattern);
    const auto *found = llvm::find_if(
        names, [&](const std::string &name) { return regex.match(name); });
    if (found != names.end())
      return ": a pattern matches the whole name, as '" + pattern +
             "' does with '" + *found + "'";
  }
  std::string close = closestName(text.str(), names.vec());
  return close.empty() ? "" : ", did you mean '" + close + "'?";
}
