//===- NN.h - the nn dialect ------------------------------------*- C++ -*-===//
//
// What to compute: tensor ops with value semantics and static shapes. Each op's
// cost stands in its definition, its sharding rule, local form and result type
// beside it (ShardingRules.cpp, Local.cpp, InferTypes.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_NN_H
#define KERF_NN_NN_H

#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/NN/Formulas.h"
#include "kerf/NN/KernelKind.h"
#include "kerf/Support/NarrowTypes.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kerf::nn {

/// The NumPy broadcast of two shapes; none if they do not broadcast.
std::optional<llvm::SmallVector<int64_t>>
broadcastShapes(llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

/// Result type of a broadcasting elementwise op; i1 elements if `boolean`.
mlir::LogicalResult inferElementwise(mlir::MLIRContext *context,
                                     std::optional<mlir::Location> location,
                                     mlir::ValueRange operands, bool boolean,
                                     llvm::SmallVectorImpl<mlir::Type> &types);

/// Positions of a window along one dimension: floor((size + low + high -
/// dilation (kernel - 1) - 1) / stride) + 1, at least 0.
int64_t windowCount(int64_t size, int64_t kernel, int64_t stride, int64_t low,
                    int64_t high, int64_t dilation);

/// Whether the elements are floats.
bool holdsFloats(mlir::Value value);

/// Whether `select` is `x == 0 ? y : x`, a guard in front of a division.
class SelectOp;
bool isWhereNotZero(SelectOp select);
/// Both branches, and one alone where the other is 0: what is chosen of sums is
/// the sum of what is chosen of their parts.
llvm::SmallVector<llvm::SmallVector<unsigned>> linearGroupsOf(SelectOp select);

/// The linear groups of a quotient: the numerator, for floats. Quotients of
/// integers are rounded, and a sum of rounded quotients is not the quotient of
/// the sum.
using LinearGroups = llvm::SmallVector<llvm::SmallVector<unsigned>>;
LinearGroups quotientLinearGroups(mlir::Type element);

/// The one number that all elements of a constant of floats have.
std::optional<double> splatNumber(mlir::Value value);

/// Whether each element of the result is the sum of products that NNBase.td
/// describes at `NN_SumOfProducts`.
bool isSumOfProducts(mlir::Operation *op);

/// Whether the op divides integers, and so fails where the divisor is 0.
bool dividesIntegers(mlir::Operation *op);

/// Dimensions `dim` and up of a value.
llvm::SmallVector<int64_t> dimsFrom(mlir::Value value, int64_t dim);

/// Rows of a normalization: its result has the type of `x`; `vectors` have the
/// shape of dimensions `dim` and up.
mlir::LogicalResult inferRow(std::optional<mlir::Location> location,
                             mlir::Value x, int64_t dim,
                             mlir::ValueRange vectors,
                             llvm::SmallVectorImpl<mlir::Type> &types);
/// Dimensions below `dim` may be cut.
ShardingRule normRule(mlir::Operation *op, uint64_t dim);
/// The interval of scale * h + bias, where h is a row divided by its root mean
/// square.
Interval normalized(mlir::Value x, int64_t dim, double epsilon, Interval scale,
                    Interval bias);

/// A call for f32, f64, i32 and i64: what the calls that go by indices take.
LibraryWork indexedLibraryWork(mlir::Type type);
/// `work` where libraries have windows of that rank: images of at most three
/// spatial dimensions, between samples and channels.
LibraryWork windowLibraryWork(LibraryWork work, mlir::RankedTensorType type);

/// C1 and C2 of every update: tensors of one type, then scalars.
mlir::LogicalResult verifyUpdate(mlir::Operation *op, unsigned numScalars);
/// C3 of updates that may have a velocity: both or none, and one if `nesterov`.
mlir::LogicalResult verifyVelocity(mlir::Operation *op, mlir::Value velocity,
                                   mlir::Value next, bool nesterov = false);

// Traits of ops, documented in NNBase.td, NNRows.td and NNUpdates.td.
#define KERF_TRAIT(Trait)                                                      \
  template <typename Op>                                                       \
  class Trait : public mlir::OpTrait::TraitBase<Op, Trait> {};
KERF_TRAIT(Border)
KERF_TRAIT(BorderAtZero)
KERF_TRAIT(ByElement)
KERF_TRAIT(Division)
KERF_TRAIT(Norm)
KERF_TRAIT(SumOfProducts)
KERF_TRAIT(Update)
#undef KERF_TRAIT

} // namespace kerf::nn

#include "kerf/NN/NNDialect.h.inc"
#include "kerf/NN/NNEnums.h.inc"

namespace kerf::nn {
/// How parts of a reduction are joined.
ReductionKind toReduction(ReduceKind kind);
} // namespace kerf::nn

#include "kerf/NN/NNInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kerf/NN/NNOps.h.inc"

#endif // KERF_NN_NN_H
