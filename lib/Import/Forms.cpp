//===- Forms.cpp - what would be taken instead of an operator -------------===//
#include "Forms.h"

#include "llvm/ADT/StringSwitch.h"

using namespace kerf;

llvm::StringRef kerf::onnx_import::formInstead(llvm::StringRef opType) {
  llvm::StringRef dataDependent =
      "shapes must not depend on values: let the model end in front of it, and "
      "do this with its outputs";
  llvm::StringRef unquantised = "Conv between DequantizeLinear and "
                                "QuantizeLinear is taken, and the model "
                                "as it was before it was quantised";
  llvm::StringRef tensors =
      "tensors are taken, and sequences of a known length; optionals and "
      "strings are not";
  return llvm::StringSwitch<llvm::StringRef>(opType)
      .Cases({"NonZero", "Compress", "Unique", "NonMaxSuppression"},
             dataDependent)
      .Cases({"QLinearConv", "ConvInteger"}, unquantised)
      .Cases({"SequenceMap", "Optional", "OptionalGetElement",
              "OptionalHasElement", "StringConcat", "StringNormalizer",
              "StringSplit", "RegexFullMatch"},
             tensors)
      .Default("");
}
