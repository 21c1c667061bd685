//===- StageFunctions.h - the functions of a step ---------------*- C++ -*-===//
//
// A stage's work in a step is divided into functions where it must wait for
// other stages: prologue, forward, backward, update. Prologue and update are
// divided again into levels, where values leave the stage and a result comes
// back (a gradient norm):
//
//   level(op) = max over operands: level(operand), + 1 if from another stage
//
// so every level receives only values that earlier levels sent, and running the
// levels in order can never deadlock. One stage without micro-batches has
// nothing to wait for and is one function. One stage with micro-batches has
// forward and backward in one function.
//
// Where stages hold several chunks of the model (dist.chunks), each chunk has a
// forward and a backward function of its own; prologue and update run once per
// step and are those of the whole stage.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PARTITION_STAGEFUNCTIONS_H
#define KERF_LIB_PARTITION_STAGEFUNCTIONS_H

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// One function of a stage; ordered as a stage runs them for a micro-batch.
struct StageFunction {
  enum Kind { Prologue, Forward, Backward, Update };
  int64_t stage = 0;
  Kind kind = Forward;
  int64_t level = 0;
  int64_t chunk = 0; ///< of the stage; 0 for prologue and update

  bool runsOncePerStep() const { return kind == Prologue || kind == Update; }
  /// A micro-batch comes back through the chunks from the last to the first.
  std::tuple<int64_t, Kind, int64_t, int64_t> order() const {
    return {stage, kind, kind == Backward ? -chunk : chunk, level};
  }
  bool operator<(const StageFunction &other) const {
    return order() < other.order();
  }
  bool operator==(const StageFunction &other) const {
    return order() == other.order();
  }
};

class StageFunctions {
public:
  StageFunctions(mlir::func::FuncOp main, const dist::Mesh &mesh);

  int64_t numStages() const { return stages; }
  int64_t numChunks() const { return chunks; }
  /// Whether the whole step is one function.
  bool isOneFunction() const { return oneFunction; }
  /// The function in which an op is computed. Not for sources.
  StageFunction functionOf(mlir::Operation *op) const {
    return functions.lookup(op);
  }
  /// Whether a value differs between micro-batches: its layout says so, or ops
  /// whose sums stay within a micro-batch (dist.local_reduction) make it from
  /// such values.
  bool varies(mlir::Value value) const { return varying.contains(value); }
  /// Whether the op sums over micro-batches; else its result is its operand.
  bool isSum(dist::AccumulateOp op) const { return sums.contains(op); }
  /// The function that sends a value to other stages or gives it to the caller:
  /// for a sum over micro-batches the first one of the update.
  StageFunction senderOf(mlir::Value value) const;
  std::string nameOf(const StageFunction &which) const;
  dist::Phase phaseOf(const StageFunction &which) const;

private:
  StageFunction::Kind kindOf(mlir::Operation *op) const;

  int64_t stages = 1, chunks = 1;
  bool oneFunction = false, mergedBackward = false, training = false;
  llvm::DenseMap<mlir::Operation *, StageFunction> functions;
  llvm::DenseSet<mlir::Operation *> sums;
  llvm::DenseSet<mlir::Value> varying;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_STAGEFUNCTIONS_H
