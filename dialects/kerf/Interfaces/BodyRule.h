//===- BodyRule.h - the sharding rule of an op with a body ------*- C++ -*-===//
//
// Problem: a loop or a call is one op to the planner, and the ops of its body
// may be cut as any others.
//
// Idea: dimensions of values in the body form classes that can only be cut
// together. Two dimensions are in one class if an op indexes both by one
// parallel factor, or if they are the same dimension of values that are one at
// different times (what a loop carries). A class may be a factor of the whole
// op if no op of the body needs all of one of its dimensions: then nothing is
// communicated in the body, and what does not have the factor is the same on
// every device. On local shapes the body is built op by op.
//
// Linear in the body.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_BODYRULE_H
#define KERF_INTERFACES_BODYRULE_H

#include "kerf/Interfaces/AnyOp.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

#include <vector>

namespace kerf {

/// Classes of dimensions that are cut together.
class DimClasses {
public:
  /// A value of the body that perhaps no op reads.
  void add(mlir::Value value) { idOf(value, 0); }
  /// Two values that are one at different times.
  void unite(mlir::Value a, mlir::Value b);
  /// What an op of the body, with this rule, indexes by one factor; where it
  /// `needsAll`, it needs the whole of all its operands and results.
  void visit(mlir::Operation *op, const ShardingRule &rule, bool needsAll);
  /// After all ops: a tensor is cut along one dimension of a class alone.
  void finish();
  /// Nothing can be cut.
  void giveUp() { isKnown = false; }

  /// The class of a dimension; none: it is whole.
  std::optional<unsigned> find(mlir::Value value, unsigned dim) const;
  bool mustDivide(unsigned root) const { return divides[root]; }

private:
  unsigned rootOf(unsigned id) const;
  unsigned idOf(mlir::Value value, unsigned dim);
  void unite(unsigned a, unsigned b);

  llvm::MapVector<mlir::Value, unsigned> firsts;
  mutable std::vector<unsigned> parents;
  std::vector<bool> whole, divides;
  bool isKnown = true;
};

/// The rule of an op, and which classes of its body are its factors.
struct BodyRule {
  DimClasses classes;
  ShardingRule rule;

  std::optional<unsigned> factorOf(mlir::Value value, unsigned dim) const;
  /// The factor of a class, which is as long as this dimension of `value`.
  unsigned addFactor(unsigned root, mlir::Value value, unsigned dim);
  /// The type that a value of the body has on a device.
  mlir::Type localType(mlir::Value value, LocalContext &context) const;

private:
  llvm::DenseMap<unsigned, unsigned> factors;
};

/// What an op of the body asks while it is built on local shapes, answered for
/// the factors of the whole op. `zero` makes an i64 without dimensions, the
/// offset of what is not cut.
class BodyContext : public LocalContext {
public:
  using MakeZero = llvm::function_ref<mlir::Value(mlir::OpBuilder &)>;
  BodyContext(mlir::Operation *op, const ShardingRule &rule,
              const BodyRule &body, LocalContext &outer, MakeZero zero);

  int64_t shards(unsigned factor) const override;
  int64_t localSize(unsigned factor) const override;
  mlir::Value shardOffset(mlir::OpBuilder &builder, unsigned factor) override;

private:
  const ShardingRule &rule;
  LocalContext &outer;
  MakeZero zero;
  llvm::SmallVector<std::optional<unsigned>> outerFactors;
};

} // namespace kerf

#endif // KERF_INTERFACES_BODYRULE_H
