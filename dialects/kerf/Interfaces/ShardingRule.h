//===- ShardingRule.h - ops as einsum-like factor mappings ------*- C++ -*-===//
//
// A sharding rule says which loops ("factors") an op is made of and which
// factors index which dimension of which operand and result. Matmul is
//
//     ([m, k], [k, n]) -> ([m, n])   {k: sum}
//
// From this alone follow all legal shardings of the op (put mesh axes on
// factors), the partial results that they leave (axes on a reduction factor),
// and the local shapes (divide factors, rounding up). Neither planner nor
// partitioner knows any op: they see this struct.
//
// Invariants (checked by verifyShardingRule): one entry per operand, result and
// dimension; the product of a dimension's factor sizes is the dimension's size,
// or the list is empty, which means "never sharded"; a Parallel factor occurs
// in every result (of a loop, in those that depend on it: the others are the
// same on all devices), a Reduction factor in none.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_SHARDINGRULE_H
#define KERF_INTERFACES_SHARDINGRULE_H

#include "kerf/Interfaces/Interval.h"
#include "kerf/Interfaces/OperandRole.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"

namespace kerf {

enum class ReductionKind { Sum, Max, Min, Prod };
llvm::StringRef stringifyReductionKind(ReductionKind kind);
std::optional<ReductionKind> symbolizeReductionKind(llvm::StringRef name);

enum class FactorKind {
  Parallel,   ///< iterations are independent; in every result that can be cut
  Reduction,  ///< iterations are combined by `reduction`; in no result
  Replicated, ///< every device needs the whole range
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::Parallel;
  ReductionKind reduction = ReductionKind::Sum;
  /// A sharded reduction over a range that the shards do not divide would read
  /// padding. The partitioner masks every operand with the factor by the
  /// identity of `reduction`; an op that masks by itself in buildLocal (gather)
  /// sets this.
  bool masksItself = false;
  /// The factor may be sharded only if the shards divide it, and its blocks
  /// have exactly that size.
  bool mustDivide = false;
};

/// The factors of one dimension, major to minor. Only the major factor of a
/// dimension with several can be sharded: blocks are whole iterations of it.
using DimFactors = llvm::SmallVector<unsigned, 2>;
/// One entry per dimension. Scalars have none.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;
  /// Each group is a set of operands in which the op is jointly linear: when
  /// exactly these are partial<sum> over some axes (and the other operands are
  /// not partial), the results are partial<sum> over the same axes. add has
  /// {0, 1}; mul {0} and {1}; exp has none.
  llvm::SmallVector<llvm::SmallVector<unsigned>> linearGroups;
  /// Operands that multiply the others, or divide them. A part of a sum may be
  /// 0 where the sum is not: partial sums pass through a group only if
  /// multipliers outside of it are finite and divisors are not 0
  /// (Intervals::letsPass).
  llvm::SmallVector<unsigned, 2> multipliers;
  llvm::SmallVector<unsigned, 2> divisors;
  /// Whether the groups are for sums over micro-batches alone: devices add
  /// theirs up in front of the op, since nothing is saved by adding up behind
  /// it, and each choice more makes planning longer.
  bool isLinearInTime = false;

  /// Integer operands whose values can make the op fail (an index, a divisor):
  /// if a dimension is sharded unevenly, the partitioner fills their padding
  /// with a value that cannot.
  struct PaddingFill {
    unsigned operand;
    int64_t value;
  };
  llvm::SmallVector<PaddingFill, 0> paddingFills;

  unsigned addFactor(int64_t size, FactorKind kind = FactorKind::Parallel,
                     ReductionKind reduction = ReductionKind::Sum) {
    factors.push_back({size, kind, reduction});
    return factors.size() - 1;
  }
};

/// Elementwise with right-aligned NumPy broadcasting: one parallel factor per
/// dimension of the result; an operand dimension of size 1 has none.
ShardingRule elementwiseShardingRule(mlir::Operation *op);
/// All factors replicated: nothing may be sharded.
ShardingRule replicatedShardingRule(mlir::Operation *op);
/// Factors of a reshape: the coarsest common split of both shapes.
ShardingRule reshapeShardingRule(llvm::ArrayRef<int64_t> from,
                                 llvm::ArrayRef<int64_t> to);
/// Checks the invariants above; emits an error on `op`.
mlir::LogicalResult verifyShardingRule(mlir::Operation *op,
                                       const ShardingRule &rule);

/// What an op can ask while it is rebuilt on local shapes.
class LocalContext {
public:
  virtual ~LocalContext() = default;
  /// Number of shards of a factor (1: whole).
  virtual int64_t shards(unsigned factor) const = 0;
  /// Iterations of the factor on each device, padding included.
  virtual int64_t localSize(unsigned factor) const = 0;
  /// This device's first global index of the factor, as a tensor<i64>; a
  /// constant 0 for an unsharded factor.
  virtual mlir::Value shardOffset(mlir::OpBuilder &builder,
                                  unsigned factor) = 0;
};

/// The class of work of an op: selects the entry of a machine's throughput
/// table.
enum class CostClass { View, Elementwise, Row, Matmul, Convolution, Gather };

/// What libraries have, so that the op is not computed by a kernel.
enum class LibraryWork {
  None,
  Epilogue, ///< nothing by itself; behind a product (EpilogueStep::Some)
  Product,  ///< a call that does elementwise ops behind it (EpilogueStep)
  Call,     ///< a call that at most widens what it stores
  Sum,      ///< a call that adds in place to what its result is added to
};
inline bool isLibraryCall(LibraryWork work) {
  return work != LibraryWork::None && work != LibraryWork::Epilogue;
}

/// What some library can do of an op behind a product, before it stores that.
enum class EpilogueStep {
  None,
  Some, ///< any of those below, of an op that does not say which
  Add,  ///< of two tensors, or a tensor and a number
  Sub,
  Mul,
  Div,
  Neg,
  Normalize, ///< a factor and an addend for each column
  Relu,
  Tanh,
  Sigmoid,
  Abs,
  GeluErf,
  GeluTanh,
  GeluTanhGradient, ///< operand 0 times that slope at operand 1
};

/// `work` where libraries have the type: f32 and floats of 16 bits.
LibraryWork libraryWorkOn(mlir::Type type, LibraryWork work);

/// Every operand and result once, in bytes; a gather touches only its result,
/// twice. Views touch nothing.
int64_t defaultBytesTouched(CostClass costClass,
                            llvm::ArrayRef<mlir::RankedTensorType> operands,
                            llvm::ArrayRef<mlir::RankedTensorType> results);

} // namespace kerf

#include "kerf/Interfaces/Interfaces.h.inc"

#endif // KERF_INTERFACES_SHARDINGRULE_H
