//===- OpSharding.h - the shardings of one op, checked ----------*- C++ -*-===//
//
// Combines the plan of an op (dist.plan) with its sharding rule: which mesh
// axes cut which factor. Used both to check a plan and to rebuild ops on local
// shapes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PARTITION_OPSHARDING_H
#define KERF_PARTITION_OPSHARDING_H

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/ShardingRule.h"

namespace kerf {

struct OpSharding {
  ShardingRule rule;
  llvm::SmallVector<dist::Layout, 2> operands, results;
  /// Per factor of the rule: the axes that cut it, and its iterations on one
  /// device.
  llvm::SmallVector<dist::AxisList, 4> factorAxes;
  llvm::SmallVector<int64_t, 4> factorBlocks;
};

/// The layouts that the plan of an op gives its operands and results; an error
/// on `op` if it has no plan.
mlir::FailureOr<llvm::SmallVector<dist::Layout, 2>>
operandLayouts(mlir::Operation *op, const dist::Mesh &mesh);
mlir::FailureOr<llvm::SmallVector<dist::Layout, 2>>
resultLayouts(mlir::Operation *op, const dist::Mesh &mesh);

/// Checks an annotated op against its rule:
/// * a dimension is cut by axes only if it has a factor, only the major one of
///   several is cut, in whole multiples of the others, and its shards divide it
///   where the rule asks;
/// * a factor has the same axes and blocks wherever it occurs; no axis lies on
///   two factors;
/// * axes of reduction factors are partial in every result, with the factor's
///   reduction; so are the sum-partial axes of the operands of one linear
///   group; nothing else is;
/// * over axes in time there are only sums, a dimension that is cut in time
///   divides and has no blocks of a size of its own, and the stage axis cuts
///   nothing.
/// Errors are emitted on the op.
mlir::FailureOr<OpSharding> analyzeOp(mlir::Operation *op,
                                      const dist::Mesh &mesh);

/// Whether analyzeOp() would accept the plan of an op; emits nothing.
bool isConsistent(mlir::Operation *op, const dist::Mesh &mesh);

/// The layout of a value: in its producer's plan, or the argument's
/// dist.sharding. The plan must have been verified.
dist::Layout getLayout(mlir::Value value, const dist::Mesh &mesh);
dist::ShardingAttr getSharding(mlir::Value value);

/// The checks of analyzeOp() that concern a single tensor (axes in time, the
/// stage axis): error text, or empty.
std::string checkPlanned(const dist::Layout &layout, const dist::Mesh &mesh,
                         llvm::ArrayRef<int64_t> shape);

/// The layout without its axes in time: that of a value which is not computed
/// per micro-batch.
dist::Layout withoutTime(dist::Layout layout, const dist::Mesh &mesh);
/// Whether axes in time cut the layout or leave it partial.
bool variesOverTime(const dist::Layout &layout, const dist::Mesh &mesh);

/// Whether an op runs once per step, not once per micro-batch.
bool runsOncePerStep(mlir::Operation *op);
/// Whether the function has ops that only a training step has.
bool isTrainingStep(mlir::Block &main);

/// The stage of an op; 0 where none is decided.
int64_t getStage(mlir::Operation *op);
/// How many stages the mesh has.
int64_t getNumStages(const dist::Mesh &mesh);
/// The place of an op's chunk among all chunks of all stages, in the order of
/// the forward pass: chunk * stages + stage.
int64_t getVirtualStage(mlir::Operation *op, const dist::Mesh &mesh);

} // namespace kerf

#endif // KERF_PARTITION_OPSHARDING_H
