//===- StageBytes.h - bytes that each stage sends ---------------*- C++ -*-===//
//
// The bytes that a solution and its cut into stages send, exactly as partition
// sends them. The Problem counts every use of a value separately and knows no
// stages.
//
// * Uses that want the same layout, in the same stage and part of the step,
//   share one reshard (partition's kerf-insert-reshards). Where stages hold
//   several chunks, each chunk has those of its micro-batches for itself.
// * A source or input is brought to its shared layout in each stage that uses
//   it; any other value is brought there by its maker and sent in that layout.
// * A value is sent once to each stage that uses it, in each micro-batch; but
//   once per step if it is made once per step or summed over micro-batches
//   before it is sent (kerf-sum-before-crossing: tied weights).
// * A source that several stages use is sent to the others when it changes.
//
// Linear in the uses.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_STAGES_STAGEBYTES_H
#define KERF_LIB_PLAN_STAGES_STAGEBYTES_H

#include "../Model/Graph.h"

namespace kerf::plan {

struct StageTraffic {
  struct Send {
    mlir::Value value;
    int64_t from, to, bytes, times;
  };
  std::vector<Send> sends;
  /// Per stage: `scaledBytes` of the busiest rank, in 1/Graph::getByteScale()
  /// of a byte; `total` of all of its devices, in bytes.
  std::vector<cost::Int128> scaledBytes, total;
};

/// `placeOf` is an op's place among the chunks of all stages, chunk * stages +
/// stage; -1 for sources and the return.
StageTraffic trafficOf(Graph &graph, const Solution &solution,
                       mlir::func::FuncOp function,
                       llvm::function_ref<int64_t(mlir::Operation *)> placeOf);

/// Partial sums of sums, which are summed over micro-batches before they leave
/// a stage, if they leave it; each with the bytes in which an element is sent,
/// which may be those of a narrower type.
llvm::DenseMap<mlir::Value, int64_t> partsOfSums(mlir::func::FuncOp function,
                                                 const BatchAnalysis &batch);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STAGES_STAGEBYTES_H
