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
inline constexpr llvm::StringLiteral kChunks = "dist.chunks";

/// Name of the mesh axis whose coordinate is a rank's stage.
inline constexpr llvm::StringLiteral kStageAxis = "pp";

//===----------------------------------------------------------------------===//
// What is decided about an op (dist.plan, dist.step)
//===----------------------------------------------------------------------===//

/// The layouts in which op takes its operands and gives its results; empty
/// where undecided.
llvm::ArrayRef<ShardingAttr> getOperandShardings(mlir::Operation *op);
llvm::ArrayRef<ShardingAttr> getResultShardings(mlir::Operation *op);
void setOperandShardings(mlir::Operation *op,
                         llvm::ArrayRef<ShardingAttr> shardings);
void setResultShardings(mlir::Operation *op,
                        llvm::ArrayRef<ShardingAttr> shardings);

/// The pipeline stage of an op or of a stage's function, if it has one.
std::optional<int64_t> findStage(mlir::Operation *op);
/// The chunk of its stage; 0 where none is named.
int64_t getChunk(mlir::Operation *op);
/// Sets the stage of an op and the chunk of the stage; no stage removes both.
void setStage(mlir::Operation *op, std::optional<int64_t> stage,
              int64_t chunk = 0);
/// Sets those of `other`.
void setStageOf(mlir::Operation *op, mlir::Operation *other);
/// How many chunks of the model each stage holds (`dist.chunks` of the module);
/// 1 where it is not said.
int64_t getNumChunks(mlir::Operation *module);
void dropPlan(mlir::Operation *op);

/// The phase of an op or of a stage's function; forward if it names none.
Phase getPhase(mlir::Operation *op);
void setPhase(mlir::Operation *op, Phase phase);
/// The colocation: ops with equal numbers must be in one stage.
std::optional<int64_t> getColocation(mlir::Operation *op);
void setColocation(mlir::Operation *op, std::optional<int64_t> colocation);
/// The purpose of data that is moved for the op; null: not stated.
PurposeAttr getPurpose(mlir::Operation *op);
void setPurpose(mlir::Operation *op, std::optional<Purpose> purpose);
/// Whether an op of the forward phase comes after the model's own output.
bool isOfLoss(mlir::Operation *op);
void setOfLoss(mlir::Operation *op, bool isOfLoss);
/// Whether the op repeats one of the forward phase for the backward phase.
bool isRecomputed(mlir::Operation *op);
/// Makes it such an op, of phase backward_input.
void setRecomputed(mlir::Operation *op);
/// Null: the op is forward and has no other entry.
StepAttr getStep(mlir::Operation *op);
/// Sets the step; null removes it.
void setStep(mlir::Operation *op, StepAttr step);
/// A step with the op's phase, whether it is recomputed, and nothing else;
/// null: forward.
StepAttr phaseOnly(StepAttr step);

/// Over which samples the op's sums over the batch are meant.
ReductionReach getReductionReach(mlir::Operation *op);

//===----------------------------------------------------------------------===//
// Functions of stages (dist.part, dist.from, dist.to)
//===----------------------------------------------------------------------===//

/// Null: not a function of a stage.
PartAttr getPart(mlir::Operation *function);
void setPart(mlir::Operation *function, int64_t stage, Phase phase,
             int64_t chunk = 0);

/// The number in the `dist.from` of argument `index`, if that is of this kind.
std::optional<int64_t> numberFrom(mlir::FunctionOpInterface function,
                                  unsigned index, From kind);
/// Where a result goes; empty lists if the function does not say.
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

/// Axes from names and back; an error text if one is not in the mesh.
llvm::Expected<AxisList> toAxisList(AxesAttr axes, const Mesh &mesh);
AxesAttr toAxesAttr(mlir::MLIRContext *context, llvm::ArrayRef<AxisRef> axes,
                    const Mesh &mesh);

/// `type` on one device.
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 const Layout &layout);
/// Bytes of a dense tensor; elements take whole bytes (i1 one).
int64_t sizeBytes(mlir::RankedTensorType type);
int64_t elementBytes(mlir::Type elementType);
/// The type of a tensor, or of the tensor that a pending value becomes.
mlir::RankedTensorType tensorOf(mlir::Type type);

/// The arguments of a collective besides its axes, named like its attributes;
/// which of them it has depends on its kind.
struct CollectiveArguments {
  ReductionAttr reduction;
  mlir::IntegerAttr dim, split, concat, root;
  mlir::DenseI64ArrayAttr pairs;

  /// What the typed op has: a collective of this dialect or of `exec`. Of a
  /// CollectiveOpInterface, ask getArguments().
  template <typename Op> static CollectiveArguments of(Op op);
  /// The dimension of which the result is a part, and the dimension of which
  /// the operand is a part; -1: none.
  int64_t cutDim(CollectiveKind kind) const;
  int64_t joinedDim(CollectiveKind kind) const;
};

namespace detail {
/// The attribute that the op's accessor of this name gives; null for an op that
/// has no such attribute.
#define KERF_COLLECTIVE_ARGUMENT(Type, accessor)                               \
  template <typename Op>                                                       \
  auto accessor(Op op, int) -> decltype(op.accessor()) {                       \
    return op.accessor();                                                      \
  }                                                                            \
  template <typename Op> Type accessor(Op, long) { return {}; }
KERF_COLLECTIVE_ARGUMENT(ReductionAttr, getReductionAttr)
KERF_COLLECTIVE_ARGUMENT(mlir::IntegerAttr, getDimAttr)
KERF_COLLECTIVE_ARGUMENT(mlir::IntegerAttr, getSplitAttr)
KERF_COLLECTIVE_ARGUMENT(mlir::IntegerAttr, getConcatAttr)
KERF_COLLECTIVE_ARGUMENT(mlir::IntegerAttr, getRootAttr)
KERF_COLLECTIVE_ARGUMENT(mlir::DenseI64ArrayAttr, getPairsAttr)
#undef KERF_COLLECTIVE_ARGUMENT
} // namespace detail

template <typename Op> CollectiveArguments CollectiveArguments::of(Op op) {
  (void)Op::getOperationName(); // an interface would seem to have none of them
  return {detail::getReductionAttr(op, 0), detail::getDimAttr(op, 0),
          detail::getSplitAttr(op, 0),     detail::getConcatAttr(op, 0),
          detail::getRootAttr(op, 0),      detail::getPairsAttr(op, 0)};
}

/// Creates the op of a kind.
mlir::Value createCollective(mlir::OpBuilder &builder, mlir::Location loc,
                             CollectiveKind kind, mlir::RankedTensorType type,
                             mlir::Value x, AxesAttr axes,
                             const CollectiveArguments &arguments,
                             PurposeAttr purpose, PhaseAttr phase);

/// Verifies axes, arguments and types against the properties of the kind.
llvm::LogicalResult verifyCollective(mlir::Operation *op);
/// Bytes of a collective from its operand and result types.
int64_t collectiveGroupBytes(mlir::Operation *op, int64_t groupSize);
int64_t collectiveBufferBytes(mlir::Operation *op, int64_t groupSize);

} // namespace kerf::dist

#include "kerf/Dist/DistInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kerf/Dist/DistOps.h.inc"

#endif // KERF_DIST_DIST_H
