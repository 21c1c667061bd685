//===- StageBytes.h - what each stage of a plan sends -----------*- C++ -*-===//
//
// The bytes that partition makes of a solution and its cut into stages, to the
// byte: the Problem counts every use of a value by itself and knows no stages.
//
// * Uses that want the same layout, in the same stage and part of the step,
//   share one reshard (partition's insert-reshards).
// * A source or input is brought to its shared layout in each stage that uses
//   it; every other value where it is made, and crosses as that.
// * A value crosses once to each stage that uses it; for each micro-batch, but
//   what is made once per step, and what is summed over micro-batches before it
//   crosses (sum-before-crossing: tied weights).
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
  /// Per stage: of the busiest rank, in 1/Graph::getByteScale() of a byte, and
  /// of all of its devices, in bytes.
  std::vector<cost::Int128> shares, total;
};

/// `stageOf` is -1 for sources and the return.
StageTraffic trafficOf(Graph &graph, const Solution &solution,
                       mlir::func::FuncOp function,
                       llvm::function_ref<int64_t(mlir::Operation *)> stageOf);

/// Values that are summed over micro-batches before they leave a stage, if
/// they leave it: parts of a sum of sums; with the bytes of an element when
/// they are sent so, which may be in a narrower type.
llvm::DenseMap<mlir::Value, int64_t> partsOfSums(mlir::func::FuncOp function,
                                                 const BatchAnalysis &batch);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_STAGES_STAGEBYTES_H
