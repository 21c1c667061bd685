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

#include "kerf/Interpret/Interpret.h"

#include <memory>
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
  /// Of a part: the outputs that are sums over its samples, or follow from one.
  llvm::SmallVector<bool> sums;
};

/// Samples of the batch; 0 where inputs have none, or not the same number.
int64_t numSamples(mlir::func::FuncOp function);

/// Makes `function` that of one sample, in place. Fails without a message, the
/// function then being of no use, if some op mixes samples.
mlir::FailureOr<SampleDims> cutSample(mlir::func::FuncOp function,
                                      int64_t sample);

/// The same of part number `part` of the batch in `parts` parts, of a function
/// whose outputs are sums over samples: ops may add up over those of the part.
mlir::FailureOr<SampleDims> cutPart(mlir::func::FuncOp function, int64_t part,
                                    int64_t parts);

/// A step of training of which forward and backward run once for each part of
/// the batch, on that part: statistics of BatchNorm are those of micro-batches.
class StepInParts {
public:
  /// Null if some op cannot be run on a part.
  static std::unique_ptr<StepInParts> split(mlir::ModuleOp step, int64_t parts);

  /// As interpret::run of the whole step.
  mlir::FailureOr<std::vector<Tensor>> run(std::vector<Tensor> inputs,
                                           const Weights &weights,
                                           const RunOptions &options) const;

private:
  /// The ops of some phases as a function of the step's arguments and of what
  /// earlier ones give.
  struct Piece {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    mlir::func::FuncOp main() const {
      return module.get().lookupSymbol<mlir::func::FuncOp>("main");
    }
  };
  Piece prologue, update;
  std::vector<Piece> bodies; ///< one for each part
  std::vector<SampleDims> dims;
};

} // namespace kerf::interpret

#endif // KERF_INTERPRET_SAMPLES_H
