//===- ParameterPatterns.h - patterns of names of parameters ----*- C++ -*-===//
#ifndef KERF_LIB_AUTODIFF_PARAMETERPATTERNS_H
#define KERF_LIB_AUTODIFF_PARAMETERPATTERNS_H

#include "Step.h"

#include "kerf/Interfaces/OtherNames.h"
#include "kerf/Support/NamePattern.h"

namespace kerf::autodiff {

/// The regular expressions of one flag, and whether each of them matched a
/// name.
class Patterns {
public:
  Patterns(llvm::StringRef flag, llvm::ArrayRef<std::string> texts,
           llvm::ArrayRef<OtherName> otherNames)
      : flag(flag), otherNames(otherNames) {
    for (const std::string &text : texts)
      patterns.push_back({text, namePattern(text), false});
  }
  bool match(llvm::StringRef name);
  /// What reports call a part of a parameter, which is one by itself.
  bool matchPart(llvm::StringRef name);
  bool empty() const { return patterns.empty(); }
  void noteStatistic(llvm::StringRef name) { statistics.push_back(name.str()); }
  mlir::LogicalResult checkSyntax(Step &step);
  mlir::LogicalResult checkUsed(Step &step);
  /// A pattern that matches some names, and of a weight one that it is not
  /// stored under; and an alternative that matches none.
  void noteOtherNames(Step &step) const;

private:
  /// How a list of patterns with commas, each of which matches, is written as
  /// one pattern; empty: `text` is no such list.
  std::string ofList(llvm::StringRef text) const;

  /// Whether the pattern matches no name that was looked at.
  bool isIdle(llvm::StringRef pattern) const;

  /// The first few names that exist, for the message on a pattern that matches
  /// none of them.
  std::string someNames() const;

  struct Pattern {
    std::string text;
    llvm::Regex regex;
    bool used;
  };
  llvm::StringRef flag;
  llvm::ArrayRef<OtherName> otherNames;
  std::vector<Pattern> patterns;
  std::vector<std::string> names; ///< that were looked at
  llvm::SmallVector<std::string> statistics;
};

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_PARAMETERPATTERNS_H
