//===- Dist.h - the dist dialect --------------------------------*- C++ -*-===//
//
// Where tensors lie: the mesh, shardings (before partitioning), collectives on
// local tensors and the instruction lists of stages (after it).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_DIST_H
#define KERF_DIST_DIST_H

#include "kerf/Dist/Layout.h"
#include "kerf/Dist/Reshard.h"
#include "kerf/Format/Collectives.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/Error.h"

#include "kerf/Dist/DistDialect.h.inc"
#include "kerf/Dist/DistEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dist/DistAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Dist/DistTypes.h.inc"

namespace kerf::dist {

/// Names of the discardable attributes (see the dialect's description and
/// Discardable.cpp). Decisions.cpp alone reads the first five.
inline constexpr llvm::StringLiteral kPlan = "dist.plan";
inline constexpr llvm::StringLiteral kStep = "dist.step";
inline constexpr llvm::StringLiteral kPart = "dist.part";
inline constexpr llvm::StringLiteral kFrom = "dist.from";
inline constexpr llvm::StringLiteral kTo = "dist.to";
inline constexpr llvm::StringLiteral kLocalReduction = "dist.local_reduction";
inline constexpr llvm::StringLiteral kSharding = "dist.sharding";
inline constexpr llvm::StringLiteral kGlobalType = "dist.global_type";
inline constexpr llvm::StringLiteral kScheduleKind = "dist.schedule_kind";

/// Name of the mesh axis whose coordinate is a rank's stage.
inline constexpr llvm::StringLiteral kStageAxis = "pp";

//===----------------------------------------------------------------------===//
// What is decided about an op (dist.plan, dist.step)
//===----------------------------------------------------------------------===//

/// How op gives and takes its tensors; empty where it is not decided.
llvm::ArrayRef<ShardingAttr> getOperandShardings(mlir::Operation *op);
llvm::ArrayRef<ShardingAttr> getResultShardings(mlir::Operation *op);
void setOperandShardings(mlir::Operation *op,
                         llvm::ArrayRef<ShardingAttr> shardings);
void setResultShardings(mlir::Operation *op,
                        llvm::ArrayRef<ShardingAttr> shardings);

/// The pipeline stage of an op or of a stage's function, if it has one.
std::optional<int64_t> findStage(mlir::Operation *op);
/// Of an op; none takes it away.
void setStage(mlir::Operation *op, std::optional<int64_t> stage);
void dropPlan(mlir::Operation *op);

/// The part of a step that an op or a stage's function belongs to; forward
/// where it does not say.
Phase getPhase(mlir::Operation *op);
void setPhase(mlir::Operation *op, Phase phase);
/// Ops of one number belong to one stage.
std::optional<int64_t> getColocation(mlir::Operation *op);
void setColocation(mlir::Operation *op, std::optional<int64_t> colocation);
/// What it is for that is moved around the op; null: it does not say.
PurposeAttr getPurpose(mlir::Operation *op);
void setPurpose(mlir::Operation *op, std::optional<Purpose> purpose);
/// Whether an op of the forward phase comes after the model's own output.
bool isOfLoss(mlir::Operation *op);
void setOfLoss(mlir::Operation *op, bool isOfLoss);
/// Null: forward, and nothing else is said.
StepAttr getStep(mlir::Operation *op);
/// Null takes it away.
void setStep(mlir::Operation *op, StepAttr step);
/// The step with its phase alone; null: forward.
StepAttr phaseOnly(StepAttr step);

/// How far the sums of an op over the batch reach.
ReductionReach getReductionReach(mlir::Operation *op);

//===----------------------------------------------------------------------===//
// Functions of stages (dist.part, dist.from, dist.to)
//===----------------------------------------------------------------------===//

/// Null: the function is not that of a stage.
PartAttr getPart(mlir::Operation *function);
void setPart(mlir::Operation *function, int64_t stage, Phase phase);

/// The number of what argument `index` is, if it is of that kind.
std::optional<int64_t> numberFrom(mlir::FunctionOpInterface function,
                                  unsigned index, From kind);
/// Where a result goes; empty lists where the function does not say.
llvm::ArrayRef<int64_t> outputsOf(mlir::FunctionOpInterface function,
                                  unsigned index);
llvm::ArrayRef<int64_t> sendsOf(mlir::FunctionOpInterface function,
                                unsigned index);
llvm::ArrayRef<int64_t> keepsOf(mlir::FunctionOpInterface function,
                                unsigned index);

//===----------------------------------------------------------------------===//
// Phases, meshes, types
//===----------------------------------------------------------------------===//

/// Whether the phase runs once per step instead of once per micro-batch.
bool runsOncePerStep(Phase phase);

/// The mesh of the module that holds `op`; null if it has none.
MeshAttr getMesh(mlir::Operation *op);

/// Axes by name and back; an error text where one is not in the mesh.
llvm::Expected<AxisList> toAxisList(AxesAttr axes, const Mesh &mesh);
AxesAttr toAxesAttr(mlir::MLIRContext *context, llvm::ArrayRef<AxisRef> axes,
                    const Mesh &mesh);

/// `type` as one device holds it.
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 const Layout &layout);
/// Bytes of a dense tensor; elements take whole bytes (i1 one).
int64_t sizeBytes(mlir::RankedTensorType type);
int64_t elementBytes(mlir::Type elementType);
/// The tensor itself, or what a pending one will be.
mlir::RankedTensorType tensorOf(mlir::Type type);

/// What a collective is told beside its axes, by the names of the attributes;
/// its kind says which of them it has.
struct CollectiveArguments {
  ReductionAttr reduction;
  mlir::IntegerAttr dim, split, concat, root;
  mlir::DenseI64ArrayAttr pairs;

  /// Of a collective of this dialect or of `exec`.
  static CollectiveArguments of(mlir::Operation *op);
  /// The dimension of which the result is a part, and that of which the operand
  /// is one; -1: none.
  int64_t cutDim(CollectiveKind kind) const;
  int64_t joinedDim(CollectiveKind kind) const;
};

/// The op of a kind.
mlir::Value createCollective(mlir::OpBuilder &builder, mlir::Location loc,
                             CollectiveKind kind, mlir::RankedTensorType type,
                             mlir::Value x, AxesAttr axes,
                             const CollectiveArguments &arguments,
                             PurposeAttr purpose, PhaseAttr phase);

/// Axes, arguments and types are what the kind says.
llvm::LogicalResult verifyCollective(mlir::Operation *op);
/// Bytes of a collective from its operand and result types.
int64_t collectiveGroupBytes(mlir::Operation *op, int64_t groupSize);
int64_t collectiveBufferBytes(mlir::Operation *op, int64_t groupSize);

} // namespace kerf::dist

#include "kerf/Dist/DistInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kerf/Dist/DistOps.h.inc"

#endif // KERF_DIST_DIST_H
