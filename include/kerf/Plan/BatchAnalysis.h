//===- BatchAnalysis.h - which dimension of each value is the batch -*- C++
//-*-===//
//
// `dp` may shard only batch dimensions, micro-batches split nothing else, so
// both need to know where the samples of a mini-batch went. The batch dimension
// of the inputs (their common leading dimension, or what the user says) is
// followed through the factors of each op's sharding rule. An op through which
// it cannot be followed (it reduces over the batch, or needs all of it at once)
// "breaks" the batch: data parallelism ends there, and micro-batches are
// illegal.
//
// Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_BATCHANALYSIS_H
#define KERF_PLAN_BATCHANALYSIS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace kerf::plan {

class BatchAnalysis {
public:
  /// `batchDims` maps input names to their batch dimension; -1 says "none".
  /// Inputs that are not named take dimension 0 if its size is that of the
  /// first input of rank 1 or more.
  BatchAnalysis(mlir::func::FuncOp function,
                const llvm::StringMap<int64_t> &batchDims);

  /// Samples in the global batch; 1 if no input has a batch dimension.
  int64_t batchSize() const { return size; }
  /// The batch dimension of a value, or nothing.
  std::optional<int64_t> batchDim(mlir::Value value) const;
  /// The factor of the op's sharding rule that runs over the batch.
  std::optional<unsigned> batchFactor(mlir::Operation *op) const;
  /// Ops that end the batch, in program order.
  llvm::ArrayRef<mlir::Operation *> breaks() const { return broken; }

private:
  void visit(mlir::Operation *op);
  void visitBackward(mlir::Operation *op);

  int64_t size = 1;
  llvm::DenseMap<mlir::Value, int64_t> dims;
  llvm::DenseMap<mlir::Operation *, unsigned> factors;
  llvm::SmallVector<mlir::Operation *> broken;
};

} // namespace kerf::plan

#endif // KERF_PLAN_BATCHANALYSIS_H
