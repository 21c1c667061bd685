//===- Forms.cpp - what would be taken instead of an operator -------------===//
#include "Forms.h"

#include "llvm/ADT/StringSwitch.h"

using namespace kerf;

llvm::StringRef kerf::onnx_import::formInstead(llvm::StringRef opType) {
  llvm::StringRef unrolled =
      "a sequence is taken unrolled: the operators of one step for each of a "
      "fixed number of steps";
  llvm::StringRef dataDependent =
      "shapes must not depend on values: let the model end in front of it, and "
      "do this with its outputs";
  llvm::StringRef unquantised =
      "the model is taken as it was before it was quantised, with "
      "option precision=bf16 or f16 for products in 16 bits";
  llvm::StringRef random =
      "random numbers are taken as an input of the model; Dropout is taken by "
      "training";
  llvm::StringRef tensors =
      "tensors are taken, and sequences of a known length; optionals and "
      "strings are not";
  return llvm::StringSwitch<llvm::StringRef>(opType)
      .Cases({"LSTM", "GRU", "RNN", "Loop", "Scan"}, unrolled)
      .Cases({"NonZero", "Compress", "Unique", "NonMaxSuppression"},
             dataDependent)
      .Cases({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
              "QLinearMatMul", "QLinearConv", "MatMulInteger", "ConvInteger"},
             unquantised)
      .Cases({"RandomNormal", "RandomNormalLike", "RandomUniform",
              "RandomUniformLike", "Bernoulli", "Multinomial"},
             random)
      .Cases({"SequenceMap", "Optional", "OptionalGetElement",
              "OptionalHasElement", "StringConcat", "StringNormalizer",
              "StringSplit", "RegexFullMatch"},
             tensors)
      .Case("SwiGLU", "it is taken as Split, Sigmoid and two Muls")
      .Case("LpPool", "it is taken as Abs, Pow and AveragePool")
      .Case("GlobalLpPool", "it is taken as ReduceL1 or ReduceL2")
      .Default("");
}
