//===- Samples.h - a function of one sample of the batch --------*- C++ -*-===//
//
// What a model computes of one sample does not depend on the others, unless it
// mixes them. So a reference that cannot run the whole batch runs some samples:
// the same function on smaller tensors. Each op says, by a rule of this file
// alone, along which dimension its result holds the samples; one that mixes
// them has no such rule, and the model is then not cut at all.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERPRET_SAMPLES_H
#define KERF_INTERPRET_SAMPLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace kerf::interpret {

/// Dimension `dim` holds `outer` times all samples one after another, with
/// `inner` rows of each; of inputs and outputs `outer` is 1.
struct SampleDim {
  int64_t dim = 0, outer = 1, inner = 1;
  bool operator==(const SampleDim &other) const {
    return dim == other.dim && outer == other.outer && inner == other.inner;
  }
};

/// Where inputs and outputs hold samples; none: they do not depend on them.
struct SampleDims {
  llvm::SmallVector<std::optional<SampleDim>> inputs, outputs;
};

/// Samples of the batch; 0 where inputs have none, or not the same number.
int64_t numSamples(mlir::func::FuncOp function);

/// Makes `function` that of one sample, in place. Fails without a message, the
/// function then being of no use, if some op mixes samples.
mlir::FailureOr<SampleDims> cutSample(mlir::func::FuncOp function,
                                      int64_t sample);

} // namespace kerf::interpret

#endif // KERF_INTERPRET_SAMPLES_H
