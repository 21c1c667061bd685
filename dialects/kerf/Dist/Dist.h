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

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
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
/// Discardable.cpp).
inline constexpr llvm::StringLiteral kSharding = "dist.sharding";
inline constexpr llvm::StringLiteral kOperands = "dist.operands";
inline constexpr llvm::StringLiteral kResults = "dist.results";
inline constexpr llvm::StringLiteral kStage = "dist.stage";
inline constexpr llvm::StringLiteral kPhase = "dist.phase";
inline constexpr llvm::StringLiteral kColocation = "dist.colocation";
inline constexpr llvm::StringLiteral kPurpose = "dist.purpose";
inline constexpr llvm::StringLiteral kLocalReduction = "dist.local_reduction";
inline constexpr llvm::StringLiteral kGlobalType = "dist.global_type";
inline constexpr llvm::StringLiteral kLoss = "dist.loss";
inline constexpr llvm::StringLiteral kHeldUntil = "dist.held_until";
inline constexpr llvm::StringLiteral kScheduleKind = "dist.schedule_kind";
// Of a stage's function: where arguments come from and results go.
inline constexpr llvm::StringLiteral kInput = "dist.input";
inline constexpr llvm::StringLiteral kRecv = "dist.recv";
inline constexpr llvm::StringLiteral kKept = "dist.kept";
inline constexpr llvm::StringLiteral kAccumulator = "dist.accumulator";
inline constexpr llvm::StringLiteral kOutput = "dist.output";
inline constexpr llvm::StringLiteral kSend = "dist.send";
inline constexpr llvm::StringLiteral kKeep = "dist.keep";

/// Name of the mesh axis whose coordinate is a rank's stage.
inline constexpr llvm::StringLiteral kStageAxis = "pp";

/// How far the sums of an op over the batch reach (dist.local_reduction).
enum class ReductionReach { Batch, MicroBatch, Device };
ReductionReach getReductionReach(mlir::Operation *op);

/// The part of a step that `op` belongs to; forward where it does not say.
Phase getPhase(mlir::Operation *op);
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

/// Bytes of a collective from its operand and result types.
int64_t collectiveGroupBytes(mlir::Operation *op, int64_t groupSize);
int64_t collectiveBufferBytes(mlir::Operation *op, int64_t groupSize);

} // namespace kerf::dist

#include "kerf/Dist/DistInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kerf/Dist/DistOps.h.inc"

#endif // KERF_DIST_DIST_H
