//===- Forms.cpp - what would be taken instead of an operator -------------===//
#include "Forms.h"

#include "llvm/ADT/StringSwitch.h"

using namespace kerf;

llvm::StringRef kerf::onnx_import::formInstead(llvm::StringRef opType) {
  llvm::StringRef dataDependent =
      "shapes must not depend on values: let the model end in front of it, and "
      "do this with its outputs";
  llvm::StringRef tensors =
      "tensors are taken, and sequences of a known length; optionals and "
      "strings are not";
  return llvm::StringSwitch<llvm::StringRef>(opType)
      .Case("NonMaxSuppression", dataDependent)
      .Cases({"SequenceMap", "Optional", "StringConcat", "StringNormalizer",
              "StringSplit", "RegexFullMatch"},
             tensors)
      .Default("");
}
