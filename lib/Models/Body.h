//===- Body.h - what a linalg body does with its operands -------*- C++ -*-===//
#ifndef KERF_LIB_MODELS_BODY_H
#define KERF_LIB_MODELS_BODY_H

#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/Identity.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace kerf::models {

/// How a body combines the values of its iterations into one of its results.
struct Combiner {
  ReductionKind kind;
  mlir::Operation *op;    ///< accumulator and value -> accumulator
  mlir::OpOperand *value; ///< of `op`: what an iteration adds
};
/// None: not by one op that is associative and commutative.
std::optional<Combiner> combinerOf(mlir::linalg::LinalgOp op, unsigned init);

/// Whether all elements of a tensor are `identityOf`: a constant, or a fill.
/// Sees through reshards. A fill may be in another stage, where it is not seen
/// any more when the op is built on local shapes: a rule asks for constants,
/// which each stage has.
bool isIdentity(mlir::Value tensor, ReductionKind kind);
bool isConstantIdentity(mlir::Value tensor, ReductionKind kind);

/// Sets linear groups, multipliers and divisors of a rule by the body.
void addLinearGroups(mlir::linalg::LinalgOp op, ShardingRule &rule);

/// Whether the body may fail on some elements (an integer division), so that it
/// must not see padding.
bool mayFail(mlir::Block &body);

} // namespace kerf::models

#endif // KERF_LIB_MODELS_BODY_H
