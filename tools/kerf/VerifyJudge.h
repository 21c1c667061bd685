//===- VerifyJudge.h - all that a program computes against a reference ----===//
#ifndef KERF_TOOLS_VERIFYJUDGE_H
#define KERF_TOOLS_VERIFYJUDGE_H

#include "Progress.h"
#include "VerifyProgram.h"
#include "VerifyReference.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

namespace kerf::tool {

struct Judgement {
  /// Of each output, then of each parameter that steps write.
  std::vector<Difference> differences;
  size_t numOutputs = 0;

  llvm::ArrayRef<Difference> outputs() const {
    return llvm::ArrayRef(differences).take_front(numOutputs);
  }
  llvm::ArrayRef<Difference> parameters() const {
    return llvm::ArrayRef(differences).drop_front(numOutputs);
  }
  bool isFine() const {
    return llvm::none_of(differences,
                         [](const Difference &d) { return d.wrong > 0; });
  }
  /// Whether nothing is wrong but what steps change of parameters.
  bool isOfUpdates() const {
    return llvm::all_of(differences, [](const Difference &d) {
      return d.wrong == 0 || d.isUpdate;
    });
  }
};

/// Runs all steps of the program and of the reference and compares what they
/// give. What differs is tried with other roundings, if the reference can.
Judgement judge(const Options &options, Program &judged, Reference &reference,
                Progress &progress);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYJUDGE_H
