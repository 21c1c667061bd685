//===- Forms.cpp - what would be taken instead of an operator -------------===//
#include "Forms.h"

#include "llvm/ADT/StringSwitch.h"

using namespace kerf;

llvm::StringRef kerf::onnx_import::formInstead(llvm::StringRef opType) {
  llvm::StringRef tensors =
      "tensors are taken, and sequences of a known length; optionals and "
      "strings are not";
  return llvm::StringSwitch<llvm::StringRef>(opType)
      .Cases({"SequenceMap", "Optional", "StringConcat", "StringNormalizer",
              "StringSplit", "RegexFullMatch"},
             tensors)
      .Default("");
}
