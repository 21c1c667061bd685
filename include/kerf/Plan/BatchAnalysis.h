//===- BatchAnalysis.h - the batch dimension of each value ------*- C++ -*-===//
//
// `dp` may shard only batch dimensions, micro-batches split nothing else, so
// both need to know where the samples of a mini-batch went. The batch dimension
// of the inputs (their common leading dimension, or what the user says) is
// followed through the factors of each op's sharding rule. An op through which
// it cannot be followed (it reduces over the batch, or needs all of it at once)
// "breaks" the batch: data parallelism ends there, and micro-batches are
// illegal.
//
// In a training step a sum over the batch does not break it as long as what
// follows is linear: the value is then a *sum over samples*, each micro-batch
// makes its part, and `dist.accumulate` adds the parts up. What runs once per
// step (prologue, update) sees the whole batch and breaks nothing.
//
// Sums of parts on *devices* may pass where the result is the whole's in all
// cases, so only what multiplies them by nothing infinite lets them pass
// (Interval.h).
//
// Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_BATCHANALYSIS_H
#define KERF_PLAN_BATCHANALYSIS_H

#include "kerf/Plan/OpRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace kerf::plan {

class BatchAnalysis {
public:
  /// `batchDims` maps names of arguments (their kerf.name, or "arg", "arg#2")
  /// to their batch dimension; -1 says "none". For the others kerf.batch_dim
  /// says it, where an argument has it; where none has, it is dimension 0.
  /// Dimensions of another size than the first input's are none.
  /// `rules`: of the function, for as long as the analysis.
  BatchAnalysis(mlir::func::FuncOp function,
                const llvm::StringMap<int64_t> &batchDims,
                const OpRules &rules);

  /// Samples in the global batch; 1 if no input has a batch dimension.
  int64_t batchSize() const { return size; }
  /// The batch dimension of a value, or nothing.
  std::optional<int64_t> batchDim(mlir::Value value) const;
  /// The factor of the op's sharding rule that runs over the batch.
  std::optional<unsigned> batchFactor(mlir::Operation *op) const;
  /// Ops that end the batch, in program order, each with the reason.
  struct Break {
    mlir::Operation *op;
    std::string reason;
  };
  llvm::ArrayRef<Break> breaks() const { return broken; }

  /// Whether the function is a training step (docs/Training.md).
  bool isTraining() const { return training; }
  /// Whether the op runs once per step, not once per micro-batch.
  bool runsOnce(mlir::Operation *op) const;
  /// Whether the value is one of the whole step: made by what runs once, a
  /// source, a sum over micro-batches, or an input that something of the kind
  /// reads. Such values have no time axis.
  bool isOfStep(mlir::Value value) const;
  /// Whether each micro-batch makes only its part of the value, a sum over
  /// samples.
  bool isSumOverBatch(mlir::Value value) const { return sums.contains(value); }
  /// The linear group of the op's rule through which such sums pass.
  std::optional<unsigned> sumGroup(mlir::Operation *op) const;
  /// The linear groups of the op's rule through which no sum of parts on
  /// several devices may pass.
  llvm::ArrayRef<unsigned> closedGroups(mlir::Operation *op) const;

private:
  void findClosedGroups(mlir::Block &block);
  void visit(mlir::Operation *op);
  void visitSum(mlir::Operation *op, llvm::ArrayRef<unsigned> summed);
  void visitBackward(mlir::Operation *op);
  void noteBreak(mlir::Operation *op, llvm::StringRef reason) {
    broken.push_back({op, reason.str()});
  }

  const OpRules &rules;
  int64_t size = 1;
  bool training = false;
  llvm::DenseMap<mlir::Value, int64_t> dims;
  llvm::DenseMap<mlir::Operation *, unsigned> factors, groups;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<unsigned, 2>> closed;
  llvm::DenseSet<mlir::Value> sums;
  llvm::SmallVector<Break> broken;
};

} // namespace kerf::plan

#endif // KERF_PLAN_BATCHANALYSIS_H
