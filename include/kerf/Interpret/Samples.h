//===- Samples.h - a function of one sample of the batch --------*- C++ -*-===//
//
// What a model computes for one sample does not depend on the other samples,
// unless it mixes them. So a reference that cannot run the whole batch runs
// some samples: the same function on smaller tensors. A rule of this file
// states for each op along which dimension its result holds the samples; an op
// that mixes them has no rule, and the model is then not cut at all.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERPRET_SAMPLES_H
#define KERF_INTERPRET_SAMPLES_H

#include "kerf/Interpret/Interpret.h"

#include <memory>
#include <optional>
#include <string>

namespace kerf::interpret {

/// Dimension `dim` holds all samples one after another, `outer` times, with
/// `inner` rows for each sample; for inputs and outputs `outer` is 1.
struct SampleDim {
  int64_t dim = 0, outer = 1, inner = 1;
  bool operator==(const SampleDim &other) const {
    return dim == other.dim && outer == other.outer && inner == other.inner;
  }
};

/// Where inputs and outputs hold samples; none: they do not depend on samples.
struct SampleDims {
  llvm::SmallVector<std::optional<SampleDim>> inputs, outputs;
  /// For a part of the batch: the outputs that are sums over its samples, or
  /// depend on one.
  llvm::SmallVector<bool> sums;
};

/// Samples in the batch; 0 if inputs have none, or different numbers.
int64_t numSamples(mlir::func::FuncOp function);

/// Turns `function` into that of one sample, in place. Fails without a message
/// if some op mixes samples; the function must then not be used any more.
mlir::FailureOr<SampleDims> cutSample(mlir::func::FuncOp function,
                                      int64_t sample);

/// The same for part `part` of `parts` parts of the batch, in a function whose
/// outputs are sums over samples: ops may sum over the samples of the part. If
/// it fails, `obstacle` is the op that cannot be cut, in words.
mlir::FailureOr<SampleDims> cutPart(mlir::func::FuncOp function, int64_t part,
                                    int64_t parts, std::string &obstacle);

/// A training step whose forward and backward run once for each part of the
/// batch: BatchNorm's statistics are then those of a part, as with
/// micro-batches.
class StepInParts {
public:
  /// Null if some op cannot be run on a part: `obstacle`, in words.
  static std::unique_ptr<StepInParts> split(mlir::ModuleOp step, int64_t parts,
                                            std::string &obstacle);

  /// Like interpret::run of the whole step.
  mlir::FailureOr<std::vector<Tensor>> run(std::vector<Tensor> inputs,
                                           const Weights &weights,
                                           const RunOptions &options) const;

private:
  /// The ops of some phases as a function of the step's arguments and of the
  /// results of earlier pieces.
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
