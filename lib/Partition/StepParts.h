//===- StepParts.h - the functions that a step falls into -------*- C++ -*-===//
//
// A stage's work in a step is cut where it must wait for others: prologue,
// forward, backward, update. Prologue and update are cut again into levels,
// where values leave the stage and something comes back (a gradient norm):
//
//   level(op) = max over operands: level(operand), + 1 if from another stage
//
// so every level receives only what levels before it have sent, and running
// the levels in order can never deadlock. One stage without micro-batches has
// nothing to wait for: one function. One stage with micro-batches needs no cut
// between forward and backward.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PARTITION_STEPPARTS_H
#define KERF_LIB_PARTITION_STEPPARTS_H

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// One function of a stage; ordered as a stage runs them.
struct Part {
  enum Kind { Prologue, Forward, Backward, Update };
  int64_t stage = 0;
  Kind kind = Forward;
  int64_t level = 0;

  bool runsOncePerStep() const { return kind == Prologue || kind == Update; }
  bool operator<(const Part &other) const {
    return std::tie(stage, kind, level) <
           std::tie(other.stage, other.kind, other.level);
  }
  bool operator==(const Part &other) const {
    return std::tie(stage, kind, level) ==
           std::tie(other.stage, other.kind, other.level);
  }
};

class StepParts {
public:
  StepParts(mlir::func::FuncOp main, const dist::Mesh &mesh);

  int64_t numStages() const { return stages; }
  /// The whole step in one function.
  bool isOneFunction() const { return oneFunction; }
  /// The part in which an op is computed. Not for sources.
  Part partOf(mlir::Operation *op) const { return parts.lookup(op); }
  /// Whether a value is another one for each micro-batch: its layout says so,
  /// or it is made from such values by ops whose sums stay within a micro-batch
  /// (dist.local_reduction).
  bool varies(mlir::Value value) const { return varying.contains(value); }
  /// Whether the op sums over micro-batches; else it hands its operand on.
  bool isSum(dist::AccumulateOp op) const { return sums.contains(op); }
  /// The part that hands a value on to other stages and to the caller: for the
  /// sum over micro-batches the first part of the update.
  Part senderOf(mlir::Value value) const;
  std::string nameOf(const Part &part) const;
  dist::Phase phaseOf(const Part &part) const;

private:
  Part::Kind kindOf(mlir::Operation *op) const;

  int64_t stages = 1;
  bool oneFunction = false, mergedBackward = false, training = false;
  llvm::DenseMap<mlir::Operation *, Part> parts;
  llvm::DenseSet<mlir::Operation *> sums;
  llvm::DenseSet<mlir::Value> varying;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_STEPPARTS_H
