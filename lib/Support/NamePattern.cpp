//===- NamePattern.cpp - regular expressions of names ---------------------===//
#include "kerf/Support/NamePattern.h"

#include "kerf/Format/ClosestName.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

std::string kerf::closestPattern(llvm::StringRef text,
                                 llvm::ArrayRef<std::string> names) {
  // "layer.1*" is written for files: any characters are ".*" here.
  std::string glob;
  for (size_t i = 0; i < text.size(); ++i)
    glob +=
        text[i] == '*' && (i == 0 || (text[i - 1] != '.' &&
                                      text[i - 1] != ')' && text[i - 1] != ']'))
            ? std::string(".*")
            : std::string(1, text[i]);
  if (glob != text) {
    llvm::Regex regex = namePattern(glob);
    if (llvm::any_of(
            names, [&](const std::string &name) { return regex.match(name); }))
      return ": it is a regular expression, in which any characters are '.*': "
             "'" +
             glob + "'";
  }
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
