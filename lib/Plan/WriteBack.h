//===- WriteBack.h - a solution as attributes -------------------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_WRITEBACK_H
#define KERF_LIB_PLAN_WRITEBACK_H

#include "Stages/Stages.h"

namespace kerf::plan {

/// Puts mesh, shardings, shared reshards and stages onto the module
/// (docs/Partition.md has the contract), which has the function that was
/// planned or a copy of it. A remark names each op that every device computes
/// whole for want of a sharding rule.
void writeBack(mlir::ModuleOp module, mlir::func::FuncOp function, Graph &graph,
               const Solution &solution, const StagePlan &stages);

/// A value that several uses share in another layout than the one it is made
/// in.
struct SharedReshard {
  mlir::Value value;
  dist::ShardingAttr from, to;
  /// In training: the phase in which it is brought to that layout.
  std::optional<dist::Phase> phase;
  /// Set: only the uses of this pass read it (ZeRO 3), for which it is gathered
  /// in front of the first, the backward pass's a second time.
  std::optional<StepPass> pass;
  const ZeroParts *zero = nullptr;
};

/// What a pass gathers of a value of the function of `zero`.
SharedReshard passReshard(mlir::Value value, StepPass pass,
                          dist::ShardingAttr from, dist::ShardingAttr to,
                          const ZeroParts &zero);

/// Inserts the reshard, which the uses then read. Stages must already be set.
void insertSharedReshards(const SharedReshard &move);

/// The schedule of a training step and the chunks of each stage, as the module
/// says them.
void setScheduleKind(mlir::ModuleOp module, cost::ScheduleKind kind,
                     int64_t chunks);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_WRITEBACK_H
